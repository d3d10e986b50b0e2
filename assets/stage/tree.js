/* The prefix tree as it grows. It draws `growth` of the frames up to the one on show: a word that lives in colour, the
   nearest dead ones grey below it, and the model's own favourite where that is another word. */
import { clamp, html, readable } from "./dom.js";
import { Tree } from "./growth.js";
import { guesses, laidOut } from "./lanes.js";
import { short } from "./tiles.js";

const DENSE_FROM = 7; // lanes, from which on dead words are told by the caption only
const LONG_FROM = 13, // words of one path, from which on there are fewer dead ones
  VAST_FROM = 41;

export class PrefixTree {
  constructor() {
    Object.assign(this, { tree: new Tree(), cells: new Map(), order: [], pointed: null, followed: null });
    this.trunk = html("div", {
      class: "ls-trunk",
      role: "toolbar",
      "aria-label": "The tree of prefixes, word by word",
    });
    this.window = html("div", { class: "ls-grove" }, this.trunk);
    this.caption = html("p", { class: "ls-odds-told" });
    this.node = html(
      "div",
      { class: "ls-prefixes", hidden: "" },
      ...explanation(),
      this.window,
      this.caption,
      legend(),
    );
    this.trunk.addEventListener("keydown", (event) => this.key(event));
    for (const kind of ["pointerover", "focusin"])
      this.trunk.addEventListener(kind, ({ target }) => this.point(target.closest(".ls-place")));
    this.trunk.addEventListener("pointerleave", () => this.point(this.focused()));
    this.trunk.addEventListener("focusout", () => this.point(null));
  }

  begin() {
    this.tree.begin();
    this.node.hidden = true;
    Object.assign(this, { pointed: null, followed: null });
  }

  draw(frames, shown, start, over) {
    this.node.hidden = false;
    this.tree.upTo(frames, shown);
    const { cells, lanes } = laidOut(this.tree, guesses(frames[shown], start ?? {}), over);
    const lost = this.order.find(({ key }) => this.cells.get(key).node.contains(document.activeElement));
    Object.assign(this, { order: cells, over, drawing: true }); // a node that goes tells that it loses the keyboard
    this.trunk.dataset.lanes = lanes >= DENSE_FROM ? "many" : lanes > 1 ? "some" : "one";
    this.trunk.dataset.length = cells.length >= VAST_FROM ? "vast" : cells.length >= LONG_FROM ? "long" : "short";
    this.arrange(cells, lanes);
    this.drawing = false;
    if (lost && !this.trunk.contains(document.activeElement))
      this.move(cells.find(({ lane, place }) => lane === lost.lane && place === lost.place));
    this.tell();
    this.follow();
  }

  // Nodes are reused, and moved only where the order asks for it: what moves begins its animation anew.
  arrange(cells, lanes) {
    const keys = new Set(cells.map(({ key }) => key));
    for (const [key, { node }] of this.cells)
      if (!keys.has(key)) {
        node.remove();
        this.cells.delete(key);
      }
    cells.forEach((cell, n) => {
      if (!this.cells.has(cell.key)) this.cells.set(cell.key, parts(cell.key));
      const { node } = this.cells.get(cell.key);
      if (this.trunk.children[n] !== node) this.trunk.insertBefore(node, this.trunk.children[n] ?? null);
      this.fill(cell, lanes > 1);
    });
  }

  fill(cell, inLanes) {
    const { node, button, word, chance, bar, twigs } = this.cells.get(cell.key);
    const odds = cell.branch?.chance ?? null;
    Object.assign(node.dataset, { kind: cell.kind, start: cell.place === 0 });
    node.style.gridArea = inLanes ? `${cell.lane + 1} / ${cell.place + 1}` : "";
    node.style.setProperty("--ls-drop", cell.drop);
    word.textContent = cell.word ? short(cell.word) : cell.parent?.tried ? "…" : "";
    chance.textContent = odds === null ? "" : percent(odds);
    bar.style.transform = `scaleX(${clamp(odds ?? 0, 0, 100) / 100})`;
    const label = sentence(cell).flat().join("");
    if (button.getAttribute("aria-label") !== label) button.setAttribute("aria-label", label);
    const drawn = JSON.stringify(cell.twigs);
    if (drawn === twigs.drawn) return;
    twigs.drawn = drawn;
    twigs.list.replaceChildren(...cell.twigs.map(twig));
  }

  // The place that is told of: the one pointed at; the latest; and in the end the most surprising one.
  current() {
    const pointed = this.order.find(({ key }) => key === this.pointed);
    if (pointed) return pointed;
    const known = this.order.filter(({ branch }) => branch);
    const surprising = known.filter(({ branch, parent }) => parent.expected?.word !== branch.word);
    const least = (one, other) => ((other.branch.chance ?? 100) < (one.branch.chance ?? 100) ? other : one);
    if (this.over && surprising.length) return surprising.reduce(least);
    const tip = this.order.find(({ kind, parent }) => kind === "room" && parent?.tried);
    return tip ?? known.reduce((one, other) => (one && one.place >= other.place ? one : other), null) ?? this.order[0];
  }

  tell() {
    const now = this.current();
    for (const { key } of this.order) {
      const { node, button } = this.cells.get(key);
      node.toggleAttribute("data-current", key === now.key);
      button.tabIndex = key === now.key ? 0 : -1;
    }
    const said = sentence(now).map((part) => (Array.isArray(part) ? html("b", {}, ...part) : part));
    if (this.caption.textContent !== sentence(now).flat().join("")) this.caption.replaceChildren(...said);
  }

  // The growing end stays in sight, unless somebody looks elsewhere.
  follow() {
    const now = this.current();
    if (this.pointed || this.followed === now.key) return;
    this.followed = now.key;
    const { node } = this.cells.get(now.key),
      { window: seen } = this;
    const middle = node.offsetTop - (seen.clientHeight - node.offsetHeight) / 2;
    seen.scrollTop = middle;
    seen.scrollLeft = node.offsetLeft - (seen.clientWidth - node.offsetWidth) * 0.7;
  }

  point(node) {
    const key = node?.dataset.key ?? null;
    if (key === this.pointed || !this.order.length) return;
    this.pointed = key;
    if (this.drawing) return;
    this.tell();
  }

  focused() {
    return this.trunk.contains(document.activeElement) ? document.activeElement.closest(".ls-place") : null;
  }

  move(cell) {
    if (cell) this.cells.get(cell.key).button.focus();
  }

  // One word is in the tab order; the arrow keys walk along its path, and from path to path.
  key(event) {
    const at = this.order.find(({ key }) => key === this.focused()?.dataset.key);
    if (!at || event.ctrlKey || event.metaKey || event.altKey) return;
    const inLane = this.order.filter(({ lane }) => lane === at.lane);
    const goal = {
      ArrowLeft: () =>
        inLane.find(({ place }) => place === at.place - 1) ??
        this.order.find(({ branch }) => branch && branch === at.parent),
      ArrowRight: () => inLane.find(({ place }) => place === at.place + 1),
      ArrowUp: () => this.nearest(at, at.lane - 1),
      ArrowDown: () => this.nearest(at, at.lane + 1),
      Home: () => this.order[0],
      End: () => inLane.at(-1),
    }[event.key];
    if (!goal) return;
    event.preventDefault();
    this.move(goal());
  }

  nearest({ place }, lane) {
    const cells = this.order.filter((cell) => cell.lane === lane);
    const off = (cell) => Math.abs(cell.place - place);
    return cells.reduce((one, other) => (one && off(one) <= off(other) ? one : other), null);
  }
}

function parts(key) {
  const word = html("span", { class: "ls-stem" }),
    chance = html("span", { class: "ls-odds" }),
    bar = html("span", { class: "ls-bar" });
  const button = html("button", { type: "button", class: "ls-branch", tabindex: "-1" }, word);
  button.append(html("span", { class: "ls-gave" }, html("span", { class: "ls-sure" }, bar), chance));
  const list = html("div", { class: "ls-twigs", "aria-hidden": "true" });
  const node = html("div", { class: "ls-place", "data-key": key }, button, list);
  return { node, button, word, chance, bar, twigs: { list, drawn: "[]" } };
}

function twig({ kind, word, chance, distance }) {
  const number = kind === "expected" ? percent(chance) : kind === "end" ? "…" : readable(distance ?? NaN);
  return html("div", { class: `ls-twig ls-${kind}` }, html("span", {}, short(word)), html("small", {}, number));
}

/* What is known of a place, in words; those of the sentence stand in lists of their own. */
function sentence({ place, word, branch, parent }) {
  const head = `Word ${place + 1}: `,
    tried = parent?.tried ?? 0;
  if (!word && !tried) return [head, "nothing was tried here yet."];
  if (!parent?.expected) return [head, "the attacker says ", [spoken(word)], "."];
  const { expected, dead } = parent;
  const guess = [head, "the model guessed ", [spoken(expected.word)], ` at ${percent(expected.chance)}`];
  if (!branch) return [...guess, `. ${count(tried, "word")} tried, and none lies in the span yet.`];
  const agreed = expected.word === word;
  const said = agreed
    ? [", and the gradient said the same."]
    : [", the gradient said ", [spoken(word)], `, to which the model gave ${percent(branch.chance)}.`];
  const near = dead.find((other) => other.distance !== null);
  const next = near
    ? ["; the nearest other, ", [spoken(near.word)], `, sticks out by ${readable(near.distance)}.`]
    : ["."];
  return [...guess, ...said, ` ${count(tried, "word")} tried`, ...next];
}

const count = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
const spoken = (word) => `“${word.replace(/^·(?=.)/u, "")}”`; // the dot is the blank before a word
const percent = (chance) => {
  if (!Number.isFinite(chance)) return "–";
  if (chance > 0 && chance < 0.001) return "<\u00a00.001\u00a0%";
  return `${chance >= 10 ? Math.round(chance) : Number(chance.toPrecision(chance >= 0.1 ? 2 : 1))}\u00a0%`;
};

function explanation() {
  const more = html(
    "p",
    {},
    "A word's vector lies in the space that the leaked gradient spans if the client's sentence has it there; any " +
      "other word sticks out, by the number beside it, and is dead. The percentages are what the attacked model " +
      "itself gave a word, before the gradient was asked: they say what is tried first, not what is found.",
  );
  return [
    html("div", { class: "ls-caption" }, html("span", {}, "The tree of prefixes")),
    html(
      "details",
      { class: "ls-why" },
      html(
        "summary",
        {},
        "Such a model reads from left to right, so the attacker finds the words one after the other. ",
        html("span", { class: "ls-ask", role: "img", "aria-label": "Why?" }, "?"),
      ),
      more,
    ),
  ];
}

const legend = () =>
  html(
    "div",
    { class: "ls-legend" },
    ...[
      ["ls-of-living", "■", "lies in the leaked span"],
      ["ls-of-expected", "▢", "what the model would have guessed, and its chance"],
      ["ls-of-dead", "└", "tried and dead: how far it sticks out"],
    ].map(([name, symbol, words]) =>
      html("span", {}, html("b", { class: name, "aria-hidden": "true" }, symbol), ` ${words}`),
    ),
  );
