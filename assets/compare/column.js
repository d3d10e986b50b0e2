/* One side of a comparison: what it does differently, its tiles, how far it is, and its verdict. */
import { html } from "../stage/dom.js";
import { Tiles, inPlace } from "../stage/tiles.js";
import { Verdict } from "../stage/verdict.js";

export class Column {
  constructor(side) {
    this.side = side;
    this.tiles = new Tiles();
    this.own = html("span", { class: "ls-title" });
    this.exposed = html("span", { class: "ls-exposed" });
    this.status = html("div", { class: "ls-status" });
    this.verdict = new Verdict();
    this.node = html(
      "div",
      { class: "ls-column", role: "group", "aria-label": `Experiment ${side}`, "data-side": side },
      html(
        "div",
        { class: "ls-head" },
        html("span", { class: "ls-letter", "aria-hidden": "true" }, side),
        this.own,
        this.exposed,
      ),
      this.tiles.node,
      this.status,
      this.verdict.node,
    );
    this.begin();
  }

  begin() {
    Object.assign(this, { start: null, end: null, last: null });
    this.tiles.clear();
  }

  setStart(start) {
    if (this.start) return;
    this.start = start;
    this.tiles.begin(start);
  }

  // False for a frame that is known already.
  add(frame) {
    if (frame.n <= this.last?.n) return false;
    this.last = frame;
    return true;
  }

  score(frame) {
    return `${inPlace(frame)} of ${this.start?.truth.length ?? frame.tokens.length} tokens in place`;
  }

  draw(frame) {
    this.own.textContent = this.start?.own ?? "";
    this.exposed.textContent = this.start ? `sees ${this.start.exposed}` : "";
    const end = frame && frame === this.last ? this.end : null; // a verdict belongs to the last frame
    this.verdict.draw(end);
    this.status.textContent = frame
      ? `step ${frame.step} · ${this.score(frame)} · ${frame.seconds.toFixed(1)} s — ${frame.stage}`
      : "";
    if (frame) this.tiles.draw(frame);
  }
}
