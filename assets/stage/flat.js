/* The map of word embeddings in two dimensions, drawn in plain SVG: for pages that carry no Plotly. It looks like
   the map in map.js and is used in its place. */
import { build, html, svg } from "./dom.js";
import { EXPLAINED, labelled, legend, spread, trail } from "./mapping.js";
import { markOf, short } from "./tiles.js";

const MARGIN = { left: 14, right: 10, top: 10, bottom: 26 };
const SHAPES = {
  circle: "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0",
  diamond: "M0 -6 6 0 0 6 -6 0z",
  x: "M-5 -3 -3 -5 0 -2 3 -5 5 -3 2 0 5 3 3 5 0 2 -3 5 -5 3 -2 0z",
};

export class WordMap {
  constructor(_root, changed) {
    this.changed = changed;
    this.svg = svg("svg", { class: "ls-flat", role: "img" });
    this.crowd = svg("g", { class: "ls-flat-crowd" });
    this.paths = svg("path", { class: "ls-flat-trail" });
    this.links = svg("path", { class: "ls-flat-link" });
    this.truth = svg("g", { class: "ls-flat-truth" });
    this.guesses = svg("g");
    this.axes = [
      svg("text", { class: "ls-tick", "text-anchor": "middle" }),
      svg("text", { class: "ls-tick", "text-anchor": "middle" }),
    ];
    this.svg.append(this.crowd, this.paths, this.links, this.truth, this.guesses, ...this.axes);
    this.host = html("div", { class: "ls-plot" }, this.svg);
    this.node = html(
      "div",
      { class: "ls-map" },
      html(
        "div",
        { class: "ls-caption" },
        html("span", { class: "ls-explained", title: EXPLAINED }, "Word embeddings, projected (PCA)"),
      ),
      this.host,
      legend(),
    );
    new ResizeObserver(() => this.resized()).observe(this.host);
  }

  begin(start, first) {
    this.start = start;
    this.frames = [];
    const points = [
      ...(start?.truth_points ?? []),
      ...(start?.background ?? []).map((word) => word.slice(1)),
      ...first,
    ];
    this.home = [0, 1].map((axis) => spread(points.map((point) => point[axis])));
    this.settle();
  }

  show(frames, shown) {
    Object.assign(this, { frames, shown });
    const points = frames[shown].points,
      beyond = points.some((point) => this.home.some(([low, high], k) => point[k] < low || point[k] > high));
    if (beyond) {
      this.home = this.home.map((range, k) => spread([...range, ...points.map((point) => point[k])]));
      this.settle();
    }
    this.draw();
  }

  resized() {
    const { width, height } = this.host.getBoundingClientRect();
    if (!width) return;
    Object.assign(this, { width, height });
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.settle();
    if (this.frames?.length) this.draw();
  }

  place([x, y]) {
    const [[left, right], [low, high]] = this.home,
      { left: l, right: r, top: t, bottom: b } = MARGIN;
    return [
      l + ((x - left) / (right - left)) * (this.width - l - r),
      t + ((high - y) / (high - low)) * (this.height - t - b),
    ];
  }

  // What stands still in a run: the crowd, the true words and their names.
  settle() {
    if (!this.width) return;
    const { background = [], truth = [], truth_points: places = [], variance = [] } = this.start ?? {};
    const type = 0.85 * parseFloat(getComputedStyle(this.host).fontSize);
    const dot = ([word, ...point], radius) => {
      const [cx, cy] = this.place(point),
        title = svg("title");
      title.textContent = word;
      return svg("circle", { cx, cy, r: radius }, title);
    };
    const spots = places.map((point) => this.place(point));
    const named = truth.map((word, i) =>
      truth.slice(0, i).some((other, k) => other === word && String(places[k]) === String(places[i]))
        ? ""
        : short(word),
    );
    const names = labelled(spots, named, type, this.width, this.height).map(({ side, name }, i) => {
      const [dx, dy, anchor] = SIDES[side](type),
        label = svg("text", { x: spots[i][0] + dx, y: spots[i][1] + dy, "text-anchor": anchor });
      label.textContent = name;
      return label;
    });
    this.crowd.replaceChildren(...background.map((word) => dot(word, 2.5)));
    this.truth.replaceChildren(...truth.map((word, i) => dot([word, ...places[i]], 8)), ...names);
    build(this.axes[0], { x: this.width / 2, y: this.height - 8 });
    build(this.axes[1], { transform: `translate(12 ${this.height / 2}) rotate(-90)` });
    this.axes.forEach((label, k) => {
      label.textContent = `PC ${k + 1}${variance[k] === undefined ? "" : ` (${variance[k]} % of the variance)`}`;
    });
  }

  draw() {
    if (!this.width) return;
    const frame = this.frames[this.shown],
      way = trail(this.frames, this.shown),
      places = this.start?.truth_points ?? [];
    const line = (points) =>
      points
        .map(
          (point, k) =>
            `${k ? "L" : "M"}${this.place(point)
              .map((at) => at.toFixed(1))
              .join(" ")}`,
        )
        .join("");
    this.paths.setAttribute(
      "d",
      frame.points.map((_, i) => line(way.map((past) => past.points[i]).filter(Boolean))).join(""),
    );
    this.links.setAttribute("d", frame.points.map((point, i) => (places[i] ? line([point, places[i]]) : "")).join(""));
    this.guesses.replaceChildren(
      ...frame.points.map((point, i) => {
        const { shape, colour, words } = markOf(frame, i),
          title = svg("title");
        title.textContent = `guess ${i + 1}: ${frame.tokens[i]}, ${words}`;
        return svg(
          "path",
          { d: SHAPES[shape], transform: `translate(${this.place(point).join(" ")})`, style: `fill: var(${colour})` },
          title,
        );
      }),
    );
    this.svg.setAttribute(
      "aria-label",
      `Word embeddings in two dimensions: ${frame.tokens.length} guesses beside ${places.length} true words`,
    );
  }

  load() {}
  refresh() {}
}

const SIDES = {
  "top center": () => [0, -12, "middle"],
  "middle right": (type) => [12, 0.35 * type, "start"],
  "middle left": (type) => [-12, 0.35 * type, "end"],
  "bottom center": (type) => [0, 12 + 0.8 * type, "middle"],
};
