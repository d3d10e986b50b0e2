/* Which coordinates of a word's embedding dropout kept, as the attack read them: a strip with a hole for each that
   it dropped. */
import { svg } from "./dom.js";

const ROWS = 8; // a byte is a column of the strip

export class Mask {
  constructor() {
    this.holes = svg("path");
    this.node = svg(
      "svg",
      { class: "ls-mask", preserveAspectRatio: "none", "aria-hidden": "true", hidden: "" },
      this.holes,
    );
    this.text = "";
  }

  // "" is a word whose mask is not read yet: its strip has its room already.
  draw(text) {
    this.node.toggleAttribute("hidden", text === undefined);
    if (text === undefined || text === this.text) return;
    this.text = text;
    this.node.style.visibility = text ? "" : "hidden";
    const columns = Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const holes = columns.flatMap((column, x) =>
      [...column.toString(2).padStart(ROWS, "0")].flatMap((bit, y) => (bit === "0" ? [`M${x} ${y}h1v1h-1z`] : [])),
    );
    this.coordinates = ROWS * columns.length;
    this.kept = this.coordinates - holes.length;
    this.node.setAttribute("viewBox", `0 0 ${columns.length} ${ROWS}`);
    this.holes.setAttribute("d", holes.join(""));
  }

  hint(right) {
    if (!this.text || this.node.hasAttribute("hidden")) return "";
    const kept = `mask: ${Math.round((100 * this.kept) / this.coordinates)} % kept`;
    return right === undefined ? kept : `${kept}, ${right} % of ${this.coordinates} coordinates right`;
  }
}
