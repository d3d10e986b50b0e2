/* The map of leaks: a row for each layer, a column for each matrix; the stronger the colour, the more was recovered. */
import { html } from "../stage/dom.js";
import { Survey, reacting } from "./survey.js";
import { picture } from "./saving.js";

const TALL_FROM = 13; // layers
const SHORT = { embeddings: "words" };
const key = ({ slice, layer }) => `${slice} ${layer ?? ""}`;

export class Picture extends Survey {
  draw(report) {
    const shape = JSON.stringify([report.model, report.layers, report.columns]);
    if (shape !== this.shape) this.build(report);
    this.shape = shape;
    const rows = new Map(report.readings.map((row) => [key(row), row])),
      now = report.now && key(report.now);
    for (const cell of this.cells.flat()) {
      cell.row = rows.get(cell.key);
      this.fill(cell, cell.row ?? (cell.key === now ? report.now : null), cell.key === now);
    }
  }

  build({ layers, columns }) {
    const line = (label, cells, name = "") =>
      html(
        "div",
        { class: `ls-line ${name}`, role: "group", "aria-label": label },
        html(
          "span",
          { class: "ls-name" },
          html("span", { class: "ls-long" }, label),
          html("span", { class: "ls-short" }, SHORT[label] ?? label),
        ),
        ...cells.map((cell) => cell.node),
      );
    const [above, below] = [[this.cell("embeddings")], [this.cell("head")]];
    const stack = Array.from({ length: layers }, (_, layer) =>
      Object.keys(columns).map((slice) => this.cell(slice, layer)),
    );
    this.cells = [above, ...stack, below];
    const names = Object.entries(columns).map(([slice, short]) =>
      html(
        "span",
        { class: "ls-column", title: slice },
        html("span", { class: "ls-long" }, slice),
        html("span", { class: "ls-short" }, short),
      ),
    );
    const grid = html(
      "div",
      { class: "ls-heat", role: "toolbar", "aria-label": "Where the model leaks" },
      line("embeddings", above, "ls-wide"),
      html("div", { class: "ls-line ls-columns-row", "aria-hidden": "true" }, html("span"), ...names),
      ...stack.map((cells, layer) => line(`layer ${layer}`, cells)),
      line("head", below, "ls-wide"),
    );
    grid.classList.toggle("ls-tall", layers >= TALL_FROM);
    grid.style.setProperty("--ls-matrices", Object.keys(columns).length);
    grid.addEventListener("keydown", (event) => this.walk(event));
    this.picture.replaceChildren(grid, this.legend());
    above[0].node.tabIndex = 0;
  }

  cell(slice, layer = null) {
    const [rate, unit, tick, time] = ["rate", "long", "tick", "time"].map((name) =>
      html("span", { class: `ls-${name}` }),
    );
    const cell = {
      slice,
      layer,
      key: key({ slice, layer }),
      rate,
      unit,
      tick,
      time,
      row: null,
      node: html(
        "button",
        { type: "button", class: "ls-cell", tabindex: "-1" },
        html("span", { class: "ls-score" }, rate, unit, tick),
        time,
      ),
    };
    reacting(cell.node, this, () => cell.row);
    return cell;
  }

  fill({ slice, layer, node, rate, unit, tick, time, row }, shown, pulsing) {
    const read = shown && !shown.reason;
    node.style.setProperty("--ls-rate", read ? `${shown.recover}%` : "0%");
    // Where black or white stops being read.
    node.dataset.level = !read || shown.recover < 62 ? "low" : shown.recover < 82 ? "middle" : "high";
    node.classList.toggle("ls-now", pulsing);
    node.setAttribute("aria-disabled", !row);
    rate.textContent = !shown ? "·" : shown.reason ? "n/a" : shown.recover;
    unit.textContent = read ? "%" : "";
    tick.textContent = read && shown.exact ? "✓" : "";
    time.textContent = read ? `${shown.seconds} s` : "";
    const told = !shown ? "not read yet" : pulsing ? "under way" : this.told(shown);
    node.setAttribute("aria-label", `${this.named({ slice, layer })}: ${told}`);
    node.title = `${this.named({ slice, layer })}\n${told}${row ? "\nClick to open it" : ""}`;
  }

  told(row) {
    if (row.reason) return row.reason;
    const exact = row.exact ? ", word for word" : "";
    return `${row.recover} % recovered${exact} in ${row.seconds} s, from ${row.share} % of the parameters`;
  }

  named({ slice, layer }) {
    return layer === null ? slice : `${slice} of layer ${layer}`;
  }

  legend() {
    return html(
      "div",
      { class: "ls-legend" },
      html("span", {}, "0 %"),
      html("span", { class: "ls-scale", "aria-hidden": "true" }),
      html("span", {}, "100 % of the words found"),
      html("span", {}, "✓ word for word"),
      html("span", {}, "n/a cannot be attacked"),
    );
  }

  // One cell is in the tab order; the arrow keys walk from it.
  walk(event) {
    const at = this.cells.findIndex((line) => line.some(({ node }) => node === event.target));
    if (at < 0) return;
    const column = this.cells[at].findIndex(({ node }) => node === event.target);
    const [line, place] =
      {
        ArrowRight: [at, column + 1],
        ArrowLeft: [at, column - 1],
        ArrowDown: [at + 1, column],
        ArrowUp: [at - 1, column],
      }[event.key] ?? [];
    const cells = this.cells[line],
      next = line === at ? cells?.[place] : cells?.[Math.min(place, cells.length - 1)];
    if (!next) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    next.node.tabIndex = 0;
    next.node.focus();
  }

  snapshot() {
    return picture([this.picture.firstChild], `Where ${this.report.title} leaks`);
  }
}
