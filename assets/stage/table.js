/* The same guess as a table, for whoever reads rather than looks. Rows are reused from frame to frame. */
import { html } from "./dom.js";
import { markOf, nameOf } from "./tiles.js";

const COLUMNS = ["Place", "Token", "State", "Confidence", "Runners-up", "Truth"];

export class TokenTable {
  constructor() {
    this.rows = [];
    this.breaks = [];
    this.place = html("th", { scope: "col" }, COLUMNS[0]);
    this.body = html("tbody");
    this.node = html(
      "table",
      { class: "ls-table", hidden: "" },
      html("caption", { class: "ls-unseen" }, "The attacker's guess, token by token"),
      html(
        "thead",
        {},
        html("tr", {}, this.place, ...COLUMNS.slice(1).map((name) => html("th", { scope: "col" }, name))),
      ),
      this.body,
    );
  }

  // Where the later sentences of a batch begin.
  begin({ breaks = [], whose = [] }) {
    Object.assign(this, { breaks, whose });
    this.place.textContent = breaks.length ? "Sentence, place" : COLUMNS[0];
  }

  // The last column is for those who compare.
  compare(on) {
    this.node.classList.toggle("ls-comparing", on);
  }

  draw(frame, truth = []) {
    if (this.node.hidden) return;
    const { tokens, sure = [], others = [] } = frame;
    while (this.rows.length > tokens.length) this.rows.pop().node.remove();
    while (this.rows.length < tokens.length) this.rows.push(this.row());
    this.rows.forEach(({ node, cells }, n) => {
      const { symbol, words } = markOf(frame, n);
      const runnersUp = (others[n] ?? "").split(" ").filter(Boolean).join(", ") || "none";
      const said = [this.placeOf(n), tokens[n], `${symbol} ${words}`, `${sure[n] ?? 0} %`, runnersUp, truth[n] ?? "–"];
      node.dataset.mark = frame.marks?.[n] ?? "x";
      cells.forEach((cell, column) => {
        if (cell.textContent !== said[column]) cell.textContent = said[column];
      });
    });
  }

  placeOf(n) {
    const starts = [0, ...this.breaks],
      sentence = starts.findLastIndex((start) => start <= n);
    return this.breaks.length ? `${nameOf(this.whose, sentence)}, ${n - starts[sentence] + 1}` : `${n + 1}`;
  }

  row() {
    const cells = COLUMNS.map((_, column) => (column ? html("td") : html("th", { scope: "row" })));
    const node = html("tr", {}, ...cells);
    this.body.append(node);
    return { node, cells };
  }
}
