/* Small tools for the page: nodes, waiting, numbers as people write them. */

export const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

export function build(node, attributes, children = []) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
export const html = (tag, attributes = {}, ...children) => build(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) =>
  build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

let ids = 0;
export const uniqueId = () => `ls-${++ids}`;

export const nextPaint = () => new Promise(requestAnimationFrame);
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const LOOKS = 100; // 50 ms apart, for what is not on the page yet
export async function found(look) {
  for (let n = 0; n < LOOKS; n += 1) {
    const thing = look();
    if (thing) return thing;
    await pause(50);
  }
  throw new Error("it did not come");
}

export const superscript = (power) => String(power).replace(/./g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));
export function readable(value) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0 || (Math.abs(value) >= 0.001 && Math.abs(value) < 10000)) return String(Number(value.toPrecision(3)));
  const [digits, power] = value.toExponential(1).split("e");
  return `${digits}·10${superscript(Number(power))}`;
}
