/* What is shown, as a file: a table, or a picture drawn onto a canvas. */

const SHARP = 2; // pixels of the picture for each on screen
const ROOM = 36,
  GAP = 12; // for the title, and around the parts
const STYLES = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
  "text-anchor",
  "background-color",
  "display",
  "visibility",
];

export function save(name, blob) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export function table(rows) {
  const names = Object.keys(rows[0]);
  // A leading = + - @ would be a formula to a spreadsheet.
  const field = (value) =>
    `"${String(value ?? "")
      .replace(/^[=+@-](?=\D)/, "'$&")
      .replaceAll('"', '""')}"`;
  return [names, ...rows.map((row) => names.map((name) => row[name]))]
    .map((line) => line.map(field).join(","))
    .join("\r\n");
}

const blobOf = (canvas) => new Promise((done) => canvas.toBlob(done));

/* Parts of the page, one under the other, as the browser laid them out: boxes, texts, drawings and Plotly's plots. */
export async function picture(parts, title) {
  const seen = parts.filter((part) => part?.getClientRects().length),
    boxes = seen.map((part) => part.getBoundingClientRect());
  const width = Math.max(...boxes.map((box) => box.width)),
    own = getComputedStyle(seen[0]);
  const height = ROOM + boxes.reduce((sum, box) => sum + box.height + GAP, 0);
  const canvas = Object.assign(document.createElement("canvas"), {
    width: SHARP * (width + 2 * GAP),
    height: SHARP * height,
  });
  const brush = canvas.getContext("2d");
  brush.scale(SHARP, SHARP);
  brush.fillStyle = own.getPropertyValue("--ls-bg");
  brush.fillRect(0, 0, width + 2 * GAP, height);
  brush.fillStyle = own.color;
  brush.font = `600 14px ${own.fontFamily}`;
  brush.fillText(title, GAP, 22, width);
  let top = ROOM;
  for (const [n, part] of seen.entries()) {
    brush.save();
    brush.translate(GAP - boxes[n].left, top - boxes[n].top);
    await paint(brush, part);
    brush.restore();
    top += boxes[n].height + GAP;
  }
  return blobOf(canvas);
}

async function paint(brush, part) {
  const box = part.getBoundingClientRect(),
    style = getComputedStyle(part);
  if (!box.width || !box.height || style.visibility === "hidden") return;
  if (part instanceof SVGSVGElement)
    return brush.drawImage(await imageOf(part, box), box.left, box.top, box.width, box.height);
  paintBox(brush, box, style);
  if (part.classList.contains("js-plotly-plot")) {
    const image = await decoded(
      await Plotly.toImage(part, { format: "png", width: box.width, height: box.height, scale: SHARP }),
    );
    return brush.drawImage(image, box.left, box.top, box.width, box.height);
  }
  brush.save();
  if (style.overflowY === "auto") clipTo(brush, box); // what is scrolled away is not seen
  for (const child of part.childNodes) {
    if (child instanceof Text) paintText(brush, child, style);
    else if (child instanceof Element) await paint(brush, child);
  }
  brush.restore();
}

function clipTo(brush, { left, top, width, height }) {
  brush.beginPath();
  brush.rect(left, top, width, height);
  brush.clip();
}

function paintBox(brush, { left, top, width, height }, style) {
  const line = parseFloat(style.borderTopWidth) || 0,
    shift = line / 2;
  brush.beginPath();
  brush.roundRect(left + shift, top + shift, width - line, height - line, parseFloat(style.borderTopLeftRadius) || 0);
  brush.fillStyle = style.backgroundColor;
  brush.fill();
  if (!line || style.borderTopStyle === "none") return;
  Object.assign(brush, { strokeStyle: style.borderTopColor, lineWidth: line });
  brush.stroke();
}

// Word by word, each where it stands: lines break as on the page.
function paintText(brush, node, style) {
  Object.assign(brush, {
    fillStyle: style.color,
    font: `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`,
    textBaseline: "middle",
  });
  const range = document.createRange();
  for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const { left, top, width, height } = range.getBoundingClientRect();
    if (width) brush.fillText(word, left, top + height / 2, width + 1);
  }
}

/* An SVG, with the page's styles written into it. */
async function imageOf(drawing, box) {
  const copy = drawing.cloneNode(true),
    originals = [drawing, ...drawing.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((part, n) => {
    const style = getComputedStyle(originals[n]);
    for (const name of STYLES) part.style.setProperty(name, style.getPropertyValue(name));
  });
  for (const [name, value] of Object.entries({ width: box.width, height: box.height })) copy.setAttribute(name, value);
  return decoded(`data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`);
}

async function decoded(source) {
  const image = new Image();
  image.src = source;
  await image.decode();
  return image;
}
