/* One tile per token, and what a mark means: the same symbols, words and colours everywhere. */
import { calm, clamp, html } from "./dom.js";
import { Mask } from "./mask.js";

export const MARKS = {
  "=": { symbol: "✓", words: "in place", colour: "--ls-right", shape: "circle" },
  "~": { symbol: "↔", words: "right word in the wrong place", colour: "--ls-moved", shape: "diamond" },
  x: { symbol: "✗", words: "wrong", colour: "--ls-wrong", shape: "x" },
};

// What the marks mean, as nodes.
export const legend = () =>
  Object.entries(MARKS).map(([mark, { symbol, words }]) =>
    html("span", { "data-mark": mark }, html("b", { class: "ls-symbol" }, symbol), ` ${words}`),
  );

const LONGEST_WORD = 18;
const CROWD = 41; // tiles, from which on they are smaller
const UNREADABLE = "characters that the model cannot read: nobody can tell what they were";

// Whose sentence it is; recordings from before that was told have numbers only.
export const nameOf = (whose, n) => whose?.[n] ?? `sentence ${n + 1}`;

export const markOf = (frame, place) => MARKS[frame.marks?.[place]] ?? MARKS.x;
export const inPlace = (frame) => [...(frame.marks ?? "")].filter((mark) => mark === "=").length;
export const short = (word) => (word.length > LONGEST_WORD ? `${word.slice(0, LONGEST_WORD - 1)}…` : word);

/* One tile per token, a row per sentence; tiles are reused from frame to frame. */
export class Tiles {
  constructor() {
    this.tiles = [];
    this.truth = [];
    this.comparing = false;
    this.tipped = null;
    this.list = html("div", { class: "ls-tiles" });
    this.tip = html("div", { class: "ls-tip", "aria-hidden": "true", hidden: "" });
    this.node = html("div", { class: "ls-tilebox" }, this.list, this.tip);
    for (const kind of ["pointerover", "focusin"])
      this.list.addEventListener(kind, (event) => this.point(event.target));
    for (const kind of ["pointerleave", "focusout"]) this.list.addEventListener(kind, () => this.point(null));
    this.node.addEventListener("keydown", (event) => event.key === "Escape" && this.point(null));
    this.begin();
  }

  begin({ truth = [], breaks = [], whose = [], unreadable } = {}) {
    Object.assign(this, { truth, unreadable });
    this.point(null);
    this.buildRows(breaks, whose);
    for (const [place, tile] of this.tiles.entries()) {
      this.lineOf(place).append(tile.node);
      this.reserve(tile, truth[place], true);
    }
  }

  // Several sentences each say whose they are, and one more row is for words that a guess has beyond a sentence's end.
  buildRows(breaks, whose) {
    this.rows = breaks.length
      ? [0, ...breaks].map((first, n) => row(first, nameOf(whose, n), `The guess, ${nameOf(whose, n)}, token by token`))
      : [row(0, "", "The attacker's guess, token by token")];
    if (breaks.length) this.rows.push(row(this.truth.length, "+", "Words beyond a sentence's end"));
    this.list.replaceChildren(...this.rows.map(({ node }) => node));
  }

  lineOf(place) {
    return this.rows.findLast(({ first }) => first <= place).line;
  }

  clear() {
    const height = this.list.offsetHeight;
    this.list.style.minHeight = height ? `${height}px` : ""; // the next run finds its room
    this.begin();
    this.resize(0);
  }

  compare(on) {
    this.comparing = on;
    this.list.classList.toggle("ls-comparing", on);
  }

  draw(frame) {
    this.list.style.minHeight = "";
    this.resize(Math.max(frame.tokens.length, this.comparing ? this.truth.length : 0));
    for (const [place, tile] of this.tiles.entries()) this.drawTile(tile, place, frame);
    if (this.tipped) this.fillTip(this.tipped);
  }

  drawTile(tile, place, frame) {
    const word = frame.tokens[place];
    const guessed = word !== undefined;
    const mark = markOf(frame, place);
    const sure = frame.sure?.[place] ?? 0;
    const others = (frame.others?.[place] ?? "").split(" ").filter(Boolean);
    const became = guessed && mark.symbol === "✓" && tile.symbol.textContent !== "✓" && tile.symbol.textContent !== "";
    tile.word.textContent = guessed ? word : "–";
    tile.symbol.textContent = guessed ? mark.symbol : "";
    tile.truth.textContent = this.truth[place] ?? "";
    tile.bar.style.transform = `scaleX(${guessed ? sure / 100 : 0})`;
    tile.node.dataset.mark = guessed ? (frame.marks?.[place] ?? "x") : "";
    tile.mask.draw(frame.masks?.[place]);
    const unread = guessed && word === this.unreadable && UNREADABLE;
    const hints = [
      unread,
      `${sure} % sure`,
      others.length && `else ${others.join(", ")}`,
      tile.mask.hint(frame.masks_right?.[place]),
    ];
    tile.hint = guessed ? hints.filter(Boolean).join("\n") : "";
    const said = guessed ? `${word}, ${mark.words}, ${tile.hint.replaceAll("\n", ", ")}` : "nothing guessed";
    tile.node.setAttribute("aria-label", `token ${place + 1}: ${said}`);
    this.reserve(tile, word);
    if (became && !calm.matches) {
      tile.node.animate([{ transform: "perspective(40em) rotateX(80deg) scale(1.12)" }, { transform: "none" }], {
        duration: 380,
        easing: "ease-out",
      });
    }
  }

  // Widths only grow within a run, so that the line does not break differently in each frame.
  reserve(tile, word = "", anew = false) {
    const width = clamp(Math.max([...word].length, anew ? 3 : tile.width), 3, LONGEST_WORD);
    if (width === tile.width) return;
    tile.width = width;
    tile.node.style.setProperty("--ls-chars", width);
  }

  resize(count) {
    this.list.classList.toggle("ls-crowded", count >= CROWD);
    while (this.tiles.length > count) this.tiles.pop().node.remove();
    while (this.tiles.length < count) {
      const tile = { width: 0, hint: "", mask: new Mask() };
      tile.word = html("span", { class: "ls-word" });
      tile.symbol = html("span", { class: "ls-symbol" });
      tile.bar = html("span", { class: "ls-bar" });
      tile.truth = html("span", { class: "ls-truth" });
      tile.node = html(
        "div",
        { class: "ls-tile", role: "listitem", tabindex: "0" },
        html("span", { class: "ls-guess" }, tile.word, tile.symbol),
        html("span", { class: "ls-sure" }, tile.bar),
        tile.mask.node,
        tile.truth,
      );
      this.reserve(tile, this.truth[this.tiles.length]);
      this.lineOf(this.tiles.length).append(tile.node);
      this.tiles.push(tile);
    }
  }

  point(target) {
    const node = target?.closest(".ls-tile");
    this.tipped = (node && this.tiles.find((tile) => tile.node === node)) || null;
    this.tip.hidden = !this.tipped?.hint;
    if (!this.tip.hidden) this.fillTip(this.tipped);
  }

  fillTip(tile) {
    this.tip.textContent = tile.hint;
    this.tip.style.top = `${tile.node.offsetTop + tile.node.offsetHeight + 4}px`;
    const furthest = Math.max(0, this.node.clientWidth - this.tip.offsetWidth);
    this.tip.style.left = `${clamp(tile.node.offsetLeft, 0, furthest)}px`;
  }
}

function row(first, name, label) {
  const line = html("div", { class: "ls-line", role: "list", "aria-label": label });
  return {
    first,
    line,
    node: html("div", { class: "ls-sentence" }, html("span", { class: "ls-whose", "aria-hidden": "true" }, name), line),
  };
}
