/* The map of word embeddings, drawn by Plotly. */
import { html, nextPaint, pause } from "./dom.js";
import { labelled, spread } from "./mapping.js";
import { markOf, short } from "./tiles.js";

const MARGIN = { l: 30, r: 8, t: 8, b: 32 }; // around the flat map, in pixels

// Plotly reads <b>, <a href=…> and entities in labels: the text is made plain first.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;");
// Its letters in space know <b> but no entities: a look-alike stands in.
const plainInSpace = (text) => String(text).replace(/</g, "‹");

let plotly = null; // one script for all stages of the page
export function loadPlotly(url) {
  plotly ??= new Promise((resolve, reject) => {
    if (window.Plotly) return resolve();
    const script = html("script", { src: url });
    script.onload = resolve;
    script.onerror = () => reject(new Error("plotly.js could not be loaded"));
    document.head.append(script);
  });
  return plotly;
}

/* The map of word embeddings in two or three dimensions. Plotly keeps one div; a frame only moves points in it, so
   camera and zoom stay the person's. Only the latest wish is drawn, and after a slow drawing the page gets time for
   the rest. */
export class Projection {
  constructor(dimensions, drawn) {
    Object.assign(this, {
      dimensions,
      drawn,
      axes: ["x", "y", "z"].slice(0, dimensions),
      wish: null,
      busy: false,
      fresh: true,
    });
    this.host = html("div", { class: "ls-plot", "data-note": "The map of words is on its way…" });
    new ResizeObserver(() => this.resized()).observe(this.host);
  }

  begin(start, first) {
    const points = [
      ...(start?.truth_points ?? []),
      ...(start?.background ?? []).map((word) => word.slice(1)),
      ...first,
    ];
    this.start = start;
    this.whole = true;
    this.home = this.axes.map((_, axis) => spread(points.map((point) => point[axis])));
    this.fresh = true;
  }

  show(frame, trail) {
    this.wish = { frame, trail };
    this.pump();
  }

  async pump() {
    if (this.busy || !this.wish || !window.Plotly || !this.host.clientWidth) return;
    this.busy = true;
    await nextPaint();
    const { frame, trail } = this.wish;
    this.wish = null;
    const began = performance.now();
    try {
      await this.draw(frame, trail);
      await nextPaint(); // WebGL paints after Plotly's promise
      const cost = performance.now() - began;
      this.drawn(cost);
      await pause(cost / 2);
    } finally {
      this.busy = false;
    }
    this.pump();
  }

  async draw(frame, trail) {
    const moving = this.moving(frame, trail);
    if (this.fresh) {
      this.fresh = false;
      const first = !this.host.childElementCount;
      await Plotly.react(this.host, this.traces(moving), this.layout(), this.config());
      this.whole = false;
      if (first) this.host.on("plotly_doubleclick", () => this.goHome());
      return;
    }
    await this.grow(frame.points ?? []);
    const update = Object.fromEntries(this.axes.map((axis) => [axis, moving.map((trace) => trace[axis])]));
    const guesses = moving[2];
    update.hovertext = [undefined, undefined, guesses.hovertext];
    update["marker.color"] = [undefined, undefined, guesses.marker.color];
    update["marker.symbol"] = [undefined, undefined, guesses.marker.symbol];
    await Plotly.restyle(this.host, update, [1, 2, 4]);
  }

  // What a frame moves: the trails, the links from guess to truth, the guesses.
  moving(frame, trail) {
    const points = frame.points ?? [],
      truth = this.start?.truth_points ?? [];
    const trails = points.flatMap((_, place) => [...trail.map((past) => past.points?.[place] ?? []), []]);
    const links = points.flatMap((point, place) => (truth[place] ? [point, truth[place], []] : []));
    return [
      this.coordinates(trails),
      this.coordinates(links),
      {
        ...this.coordinates(points),
        hovertext: frame.tokens.map((word, place) => plain(`guess ${place + 1}: ${word}`)),
        marker: {
          color: points.map((_, place) => this.colour(markOf(frame, place).colour)),
          symbol: points.map((_, place) => this.shape(markOf(frame, place))),
        },
      },
    ];
  }

  // WebGL would draw x as an emoji, which not every machine has.
  shape({ shape }) {
    return shape === "x" && this.dimensions === 3 ? "cross" : shape;
  }

  coordinates(points) {
    return Object.fromEntries(this.axes.map((name, axis) => [name, points.map((point) => point[axis] ?? null)]));
  }

  traces([trails, links, guesses]) {
    const flat = this.dimensions === 2;
    const type = flat ? "scatter" : "scatter3d";
    const { background = [], truth = [], truth_points: places = [] } = this.start ?? {};
    const [faint, muted, accent, ink, ground] = ["--ls-faint", "--ls-muted", "--ls-accent", "--ls-fg", "--ls-bg"].map(
      (name) => this.colour(name),
    );
    // A word that stands twice in the sentence is one point: it is named once.
    const named = (i) =>
      truth.slice(0, i).some((word, k) => word === truth[i] && String(places[k]) === String(places[i]));
    const names = truth.map((word, i) => (named(i) ? "" : short(word)));
    const labels = flat && this.labels(places, names);
    const line = (trace, colour, opacity, style) => ({
      ...trace,
      type,
      mode: "lines",
      hoverinfo: "skip",
      opacity,
      line: { color: colour, ...style },
    });
    return [
      {
        ...this.coordinates(background.map((word) => word.slice(1))),
        type,
        mode: "markers",
        hoverinfo: "text",
        hovertext: background.map(([word]) => plain(word)),
        marker: { color: faint, size: flat ? 5 : 2.5 },
      },
      line(trails, accent, 0.4, { width: flat ? 1.5 : 2 }),
      line(links, muted, 0.8, flat ? { width: 1, dash: "dot" } : { width: 1.5 }),
      {
        ...this.coordinates(places),
        type,
        mode: "markers+text",
        hoverinfo: "text",
        hovertext: truth.map((word) => plain(`true: ${word}`)),
        text: flat ? labels.map(({ name }) => plain(name)) : names.map(plainInSpace),
        textfont: { color: ink, size: this.type() },
        textposition: flat ? labels.map(({ side }) => side) : "top center",
        marker: {
          symbol: "circle-open",
          color: ink,
          size: flat ? 16 : 11,
          line: { width: flat ? 1.5 : 1, color: ink },
        },
      },
      {
        ...guesses,
        type,
        mode: "markers",
        hoverinfo: "text",
        marker: { ...guesses.marker, size: flat ? 9 : 6, opacity: 1, line: { width: flat ? 1 : 0, color: ground } },
      },
    ];
  }

  labels(places, names) {
    const width = this.host.clientWidth - MARGIN.l - MARGIN.r,
      height = this.host.clientHeight - MARGIN.t - MARGIN.b;
    const [[left, right], [low, high]] = this.home;
    const spots = places.map(([x, y]) => [(width * (x - left)) / (right - left), (height * (high - y)) / (high - low)]);
    return labelled(spots, names, this.type(), width, height);
  }

  layout() {
    const [ink, muted, line, ground] = ["--ls-fg", "--ls-muted", "--ls-line", "--ls-bg"].map((name) =>
      this.colour(name),
    );
    const axis = (k) => ({
      range: this.range(k),
      title: { text: this.axisTitle(k), font: { color: muted, size: this.type() }, standoff: 6 },
      showticklabels: false,
      ticks: "",
      nticks: 6,
      gridcolor: line,
      zeroline: false,
      linecolor: line,
      showspikes: false,
    });
    const common = {
      font: { family: getComputedStyle(this.host).fontFamily, color: ink, size: this.type() },
      showlegend: false,
      hovermode: "closest",
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      hoverlabel: { bgcolor: ground, bordercolor: muted, font: { color: ink, size: this.type() } },
    };
    // A finger on the flat map scrolls the page; a mouse zooms.
    if (this.dimensions === 2) {
      const touch = window.matchMedia("(pointer: coarse)").matches;
      return { ...common, margin: MARGIN, xaxis: axis(0), yaxis: axis(1), dragmode: touch ? false : "zoom" };
    }
    const back = this.host.clientWidth < 500 ? 1.25 : 1;
    const scene = {
      xaxis: axis(0),
      yaxis: axis(1),
      zaxis: axis(2),
      aspectmode: "manual",
      aspectratio: { x: 1.3, y: 1.3, z: 0.85 },
      dragmode: "orbit",
      uirevision: "the person's",
      camera: { eye: { x: 1.3 * back, y: 1.3 * back, z: 0.75 * back }, center: { x: 0, y: 0, z: -0.14 } },
    };
    return { ...common, margin: { l: 0, r: 0, t: 0, b: 0 }, scene };
  }

  config() {
    const home = { name: "home", title: "Back to the whole map", icon: Plotly.Icons.home, click: () => this.goHome() };
    const buttons = this.dimensions === 2 ? ["zoomIn2d", "zoomOut2d", home] : ["resetCameraDefault3d"];
    return {
      displaylogo: false,
      doubleClick: false,
      scrollZoom: this.dimensions === 3,
      modeBarButtons: [["toImage", ...buttons]],
    };
  }

  axisTitle(axis) {
    const share = this.start?.variance?.[axis];
    if (share === undefined) return `PC ${axis + 1}`;
    return this.dimensions === 2 ? `PC ${axis + 1} (${share} % of the variance)` : `PC ${axis + 1} (${share} %)`;
  }

  // A run is first seen whole; when only the colours change, the person's zoom stays.
  range(axis) {
    const seen =
      this.whole || this.dimensions === 3 ? this.home[axis] : this.host.layout[`${this.axes[axis]}axis`].range;
    return [...seen];
  }

  ranges() {
    const prefix = this.dimensions === 3 ? "scene." : "";
    return Object.fromEntries(this.axes.map((axis, k) => [`${prefix}${axis}axis.range`, [...this.home[k]]]));
  }

  goHome() {
    if (this.dimensions === 2) Plotly.relayout(this.host, this.ranges());
  }

  // The axes stay as they are unless points leave by far, and never move under a person who zoomed.
  async grow(points) {
    const far = ([low, high], value) => value < low - 0.1 * (high - low) || value > high + 0.1 * (high - low);
    const zoomed =
      this.dimensions === 2 &&
      this.axes.some((axis, k) => String(this.host.layout[`${axis}axis`].range) !== String(this.home[k]));
    if (zoomed || !points.some((point) => this.home.some((range, k) => far(range, point[k])))) return;
    this.home = this.home.map((range, k) => spread([...range, ...points.map((point) => point[k])]));
    await Plotly.relayout(this.host, this.ranges());
  }

  resized() {
    if (this.host.clientWidth && this.host.childElementCount) Plotly.Plots.resize(this.host);
    this.pump();
  }

  colour(name) {
    return getComputedStyle(this.host).getPropertyValue(name).trim();
  }

  type() {
    return Math.round(0.85 * parseFloat(getComputedStyle(this.host).fontSize));
  }
}
