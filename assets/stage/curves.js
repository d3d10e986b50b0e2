/* Pictures in plain SVG, which cost a millisecond a frame: lines over time, and the strip of candidate words. */
import { build, clamp, html, readable, superscript, svg } from "./dom.js";

const CURVE_POINTS = 240;

/* An SVG that is as many units wide as it has pixels, so that its type keeps its size. */
class Picture {
  constructor(name) {
    this.title = html("div", { class: "ls-caption" });
    this.svg = svg("svg", { class: "ls-svg", role: "img" });
    this.node = html("div", { class: `ls-picture ${name}` }, this.title, this.svg);
    new ResizeObserver(() => this.measure()).observe(this.svg);
  }

  measure() {
    const { width, height } = this.svg.getBoundingClientRect();
    if (!width) return;
    Object.assign(this, { width, height, em: parseFloat(getComputedStyle(this.svg).fontSize) });
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.redraw?.();
  }
}

/* Lines over the seconds of the run: strong up to the frame on show, faint after it. A scale is of percents, of
   powers of ten, or as high as the values are; a goal is a line of its own. */
export class Chart extends Picture {
  constructor(series, { unit = "", room, most = 0 }) {
    super("ls-chart");
    Object.assign(this, { unit, room, most, log: false, goal: undefined, counts: () => true });
    this.grid = [0, 1, 2].map(() => ({
      line: svg("line", { class: "ls-grid" }),
      text: svg("text", { class: "ls-tick", "text-anchor": "end" }),
    }));
    this.times = ["start", "end"].map((anchor) => svg("text", { class: "ls-tick", "text-anchor": anchor }));
    this.cursor = svg("line", { class: "ls-cursor" });
    this.aim = { line: svg("line", { class: "ls-goal" }), text: svg("text", { class: "ls-tick" }) };
    this.lines = series.map(({ key, name, colour }) => ({
      key,
      name,
      whole: svg("path", { class: "ls-line ls-rest", style: `stroke: var(${colour})` }),
      past: svg("path", { class: "ls-line", style: `stroke: var(${colour})` }),
      dot: svg("circle", { r: 3.5, style: `fill: var(${colour})` }),
      label: svg("text", { class: "ls-label", style: `fill: var(${colour})` }),
    }));
    this.svg.append(
      ...this.grid.flatMap(({ line, text }) => [line, text]),
      ...this.times,
      this.cursor,
      this.aim.line,
      this.aim.text,
      ...this.lines.flatMap(({ whole, past, dot, label }) => [whole, past, dot, label]),
    );
  }

  // What the values are, where that is not the same in all frames; those that are something else are left out.
  tell({ name, title, about, log, goal }) {
    Object.assign(this, { log, goal, counts: (frame) => frame.meaning === name });
    this.title.textContent = log ? `${title} (log scale)` : title;
    this.title.title = about;
  }

  draw(frames, shown) {
    this.redraw = () => this.draw(frames, shown);
    if (!this.width || !frames[shown]) return;
    const sample = this.sample(frames, shown),
      now = frames[shown];
    const end = niceAbove(frames.at(-1).seconds);
    const [low, high, ticks] = this.scale(
      sample.flatMap((i) => this.lines.map(({ key }) => frames[i][key])).filter(Number.isFinite),
    );
    const left = 2.9 * this.em,
      right = this.width - this.room * this.em,
      top = 0.7 * this.em,
      bottom = this.height - 1.5 * this.em;
    const scaled = (value) => (this.log ? Math.log10(Math.max(value, 10 ** low)) : value);
    const x = (frame) => left + (frame.seconds / end) * (right - left);
    const y = (value) => bottom - ((scaled(value) - low) / (high - low)) * (bottom - top);
    this.drawGrid(ticks, (tick) => y(this.log ? 10 ** tick : tick), left, right, bottom, end);
    this.drawGoal(y, left, right);
    const at = x(now);
    build(this.cursor, { x1: at, x2: at, y1: top, y2: bottom });
    let taken = -Infinity;
    for (const line of [...this.lines].sort((a, b) => now[b.key] - now[a.key])) {
      const known = sample.filter((i) => Number.isFinite(frames[i][line.key]));
      const path = (indices) =>
        indices
          .map((i, k) => `${k ? "L" : "M"}${x(frames[i]).toFixed(1)} ${y(frames[i][line.key]).toFixed(1)}`)
          .join("");
      line.whole.setAttribute("d", path(known));
      line.past.setAttribute("d", path(known.filter((i) => i <= shown)));
      const told = Number.isFinite(now[line.key]),
        height = told ? y(now[line.key]) : bottom;
      build(line.dot, { cx: at, cy: height, visibility: told ? "visible" : "hidden" });
      taken = Math.max(height + 0.35 * this.em, taken + 1.15 * this.em); // labels do not lie on each other
      build(line.label, { x: at + 0.6 * this.em, y: Math.min(taken, this.height - 0.2 * this.em) });
      line.label.textContent = this.labelOf(line, now);
    }
    const values = [
      ...this.lines.map((line) => this.labelOf(line, now)),
      ...(this.aim.text.textContent ? [this.aim.text.textContent] : []),
    ];
    this.svg.setAttribute("aria-label", `${this.title.textContent} at ${now.seconds} s: ${values.join(", ")}`);
  }

  labelOf({ key, name }, frame) {
    return `${name} ${this.written(frame[key])}${this.unit}`.trim();
  }

  written(value) {
    return this.log || !Number.isFinite(value) ? readable(value) : Number(value.toPrecision(4)).toLocaleString("en");
  }

  drawGrid(ticks, y, left, right, bottom, end) {
    this.grid.forEach(({ line, text }, k) => {
      const at = y(ticks[k]);
      build(line, { x1: left, x2: right, y1: at, y2: at });
      build(text, { x: left - 0.4 * this.em, y: at + 0.35 * this.em });
      text.textContent = this.log ? `10${superscript(ticks[k])}` : COMPACT.format(ticks[k]);
    });
    for (const [k, text] of this.times.entries()) build(text, { x: k ? right : left, y: bottom + 1.25 * this.em });
    this.times[0].textContent = "0";
    this.times[1].textContent = `${end} s`;
  }

  drawGoal(y, left, right) {
    const { line, text } = this.aim,
      at = Number.isFinite(this.goal) ? y(this.goal) : 0;
    build(line, { x1: left, x2: right, y1: at, y2: at, visibility: Number.isFinite(this.goal) ? "visible" : "hidden" });
    build(text, { x: left + 0.4 * this.em, y: at + 1.1 * this.em });
    text.textContent = Number.isFinite(this.goal) ? `true sentence: ${this.written(this.goal)}` : "";
  }

  sample(frames, shown) {
    const stride = Math.ceil(frames.length / CURVE_POINTS);
    return [...frames.keys()].filter(
      (i) => (i % stride === 0 || i === shown || i === frames.length - 1) && this.counts(frames[i]),
    );
  }

  scale(values) {
    if (this.log) return decades(values.filter((value) => value > 0).map(Math.log10));
    const high = this.most || niceAbove(Math.max(1, this.goal ?? 0, ...values));
    return [0, high, [0, high / 2, high]];
  }
}

const COMPACT = new Intl.NumberFormat("en", { notation: "compact" });

// A round number that is as large: the end of an axis, which so moves seldom while a run grows.
function niceAbove(value) {
  const decade = 10 ** Math.floor(Math.log10(Math.max(value, 0.1)));
  return (
    Number(
      (decade * [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => step * decade >= value - 1e-9)).toPrecision(2),
    ) || 1
  );
}

function decades(powers) {
  const high = powers.length ? Math.ceil(Math.max(...powers)) : 0;
  let low = Math.min(powers.length ? Math.floor(Math.min(...powers)) : -2, high - 2);
  if ((high - low) % 2) low -= 1; // a whole decade in the middle
  return [low, high, [low, (low + high) / 2, high]];
}

/* The span attack's picture: the right word lies in the leaked span, the crowd does not. */
export class Strip extends Picture {
  constructor() {
    super("ls-strip");
    this.ticks = [-7, -5, -3, -1, 0].map((power) => ({
      power,
      line: svg("line", { class: "ls-grid" }),
      text: svg("text", { class: "ls-tick", "text-anchor": "middle" }),
    }));
    this.labels = ["ls-nearest", "ls-second"].map((name) => svg("text", { class: `ls-label ${name}` }));
    this.dots = Array.from({ length: 24 }, () => svg("circle", {}, svg("title")));
    for (const { power, text } of this.ticks) text.textContent = power ? `10${superscript(power)}` : "1";
    this.svg.append(...this.ticks.flatMap(({ line, text }) => [line, text]), ...this.dots, ...this.labels);
  }

  draw({ place, words, distances }) {
    this.redraw = () => this.draw({ place, words, distances });
    this.title.textContent = `How far each word is from the leaked span (place ${place})`;
    if (!this.width) return;
    const { em } = this,
      bottom = this.height - 1.5 * em,
      middle = 0.62 * bottom;
    const x = (distance) => 2 * em + ((Math.log10(clamp(distance, 1e-7, 1)) + 7) / 7) * (this.width - 4 * em);
    for (const { power, line, text } of this.ticks) {
      build(line, { x1: x(10 ** power), x2: x(10 ** power), y1: 1.6 * em, y2: bottom });
      build(text, { x: x(10 ** power), y: bottom + 1.2 * em });
    }
    const order = [...words.keys()].sort((a, b) => distances[a] - distances[b]).slice(0, this.dots.length);
    this.dots.forEach((dot, rank) => {
      const i = order[rank];
      dot.style.display = i === undefined ? "none" : "";
      if (i === undefined) return;
      const lift = rank ? (((rank * 7) % 9) - 4) * 0.32 * em : 0; // a fixed scatter keeps the crowd's dots apart
      build(dot, { cx: x(distances[i]), cy: middle + lift, r: rank ? 4 : 6, class: rank ? "ls-crowd" : "ls-nearest" });
      dot.firstChild.textContent = `${words[i]}: ${readable(distances[i])}`;
    });
    this.labels.forEach((label, rank) => {
      const i = order[rank];
      label.textContent = i === undefined ? "" : `${words[i]} ${readable(distances[i])}`;
      if (i === undefined) return;
      const at = x(distances[i]);
      const anchor = at > this.width / 2 ? "end" : "start";
      build(label, {
        x: clamp(at, em, this.width - em),
        y: rank ? 1.1 * em : middle - 0.9 * em,
        "text-anchor": anchor,
      });
    });
    const [first, second] = order.map((i) => `${words[i]} at ${readable(distances[i])}`);
    this.svg.setAttribute(
      "aria-label",
      `${this.title.textContent}: nearest ${first}${second ? `, next ${second}` : ""}`,
    );
  }
}
