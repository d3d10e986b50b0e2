/* What is shown, as a file: a table, or a picture drawn onto a canvas. */

const SHARP = 2; // pixels of the picture for each on screen
const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-anchor"];

export function save(name, blob) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export function table(rows) {
  const names = Object.keys(rows[0]);
  // A leading = + - @ would be a formula to a spreadsheet.
  const field = (value) => `"${String(value ?? "").replace(/^[=+@-](?=\D)/, "'$&").replaceAll('"', '""')}"`;
  return [names, ...rows.map((row) => names.map((name) => row[name]))].map((line) => line.map(field).join(",")).join("\r\n");
}

function canvasFor(node, title) {
  const box = node.getBoundingClientRect(), own = getComputedStyle(node), room = 36;
  const canvas = Object.assign(document.createElement("canvas"), { width: SHARP * box.width, height: SHARP * (box.height + room) });
  const brush = canvas.getContext("2d");
  brush.scale(SHARP, SHARP);
  brush.fillStyle = own.getPropertyValue("--ls-bg");
  brush.fillRect(0, 0, box.width, box.height + room);
  brush.fillStyle = own.color;
  brush.font = `600 14px ${own.fontFamily}`;
  brush.fillText(title, 8, 22);
  brush.translate(0, room);
  return { canvas, brush, box };
}

const blobOf = (canvas) => new Promise((done) => canvas.toBlob(done));

/* Boxes and their texts, where the browser laid them out. */
export function pictureOfBoxes(node, title) {
  const { canvas, brush, box } = canvasFor(node, title);
  for (const part of node.querySelectorAll("*")) {
    const { left, top, width, height } = part.getBoundingClientRect(), style = getComputedStyle(part);
    if (!width) continue;
    brush.fillStyle = style.backgroundColor;
    brush.fillRect(left - box.left, top - box.top, width, height);
    if (part.children.length || !part.textContent) continue;
    brush.fillStyle = style.color;
    brush.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    Object.assign(brush, { textAlign: "center", textBaseline: "middle" });
    brush.fillText(part.textContent, left - box.left + width / 2, top - box.top + height / 2);
  }
  return blobOf(canvas);
}

/* An SVG, with the page's styles written into it. */
export async function pictureOfSvg(drawing, title) {
  const { canvas, brush, box } = canvasFor(drawing, title), copy = drawing.cloneNode(true);
  const originals = [drawing, ...drawing.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((part, n) => {
    const style = getComputedStyle(originals[n]);
    for (const name of STYLES) part.style.setProperty(name, style.getPropertyValue(name));
  });
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.height);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  brush.drawImage(image, 0, 0, box.width, box.height);
  return blobOf(canvas);
}
