/* The sweep: what is recovered, and what training keeps, as one defense grows stronger. */
import { html, readable, svg } from "../stage/dom.js";
import { Survey, reacting } from "./survey.js";
import { picture } from "./saving.js";

const LINES = [
  { name: "words found", symbol: "●", colour: "--ls-accent", of: (row) => row.recover },
  { name: "word for word", symbol: "✓", colour: "--ls-right-ink", dashed: "5 4", of: (row) => (row.exact ? 100 : 0) },
  {
    name: "what training keeps: cosine with the clean gradient",
    symbol: "◆",
    colour: "--ls-blue",
    of: (row) => 100 * Math.max(0, row.likeness),
  },
];

export class Picture extends Survey {
  draw(report) {
    this.svg ??= this.build();
    const { width, height } = this.svg.getBoundingClientRect();
    // Nothing to draw while its tab is closed; and what stays the same keeps its nodes, so that no click gets lost.
    const same = JSON.stringify([report.run, report.readings.length, Boolean(report.now), width, height]);
    if (!width || same === this.drawn) return;
    this.drawn = same;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const em = parseFloat(getComputedStyle(this.svg).fontSize),
      left = 3.6 * em,
      step = (width - left - em) / report.todo.length;
    const crowded = step < 4 * em,
      top = 1.8 * em,
      bottom = height - (crowded ? 4.6 : 3.4) * em; // then labels stand on two levels
    const x = (n) => left + (n + 0.5) * step,
      y = (percent) => bottom - (percent / 100) * (bottom - top);
    const focused = [...this.svg.querySelectorAll(".ls-point")].indexOf(document.activeElement);
    this.svg.replaceChildren(
      ...this.axes(report, { x, y, em, left, right: width - em, crowded }),
      ...LINES.map((line) => this.curve(line, report, x, y)),
      ...report.readings.map((row, n) => this.point(row, { at: x(n), step, top, bottom, y, em })),
    );
    if (report.now)
      this.svg.append(
        svg("text", { class: "ls-now", x: x(report.readings.length), y: y(50), "text-anchor": "middle" }, "…"),
      );
    if (focused >= 0) this.svg.querySelectorAll(".ls-point")[focused]?.focus();
    this.svg.setAttribute("aria-label", report.readings.map((row) => this.told(row)).join("; "));
  }

  build() {
    const drawing = svg("svg", { class: "ls-svg", role: "group" });
    const legend = html(
      "div",
      { class: "ls-legend" },
      ...LINES.map(({ name, symbol, colour }) =>
        html("span", {}, html("b", { style: `color: var(${colour})`, "aria-hidden": "true" }, symbol), ` ${name}`),
      ),
    );
    this.picture.replaceChildren(drawing, legend);
    new ResizeObserver(() => this.report && this.draw(this.report)).observe(drawing);
    return drawing;
  }

  axes({ todo }, { x, y, em, left, right, crowded }) {
    const text = (attributes, said) => svg("text", { class: "ls-tick", ...attributes }, said);
    const levels = [0, 50, 100].flatMap((percent) => [
      svg("line", { class: "ls-grid", x1: left, x2: right, y1: y(percent), y2: y(percent) }),
      text({ x: left - 0.5 * em, y: y(percent) + 0.35 * em, "text-anchor": "end" }, `${percent} %`),
    ]);
    const strengths = todo.map(({ strength }, n) =>
      text({ x: x(n), y: y(0) + (crowded && n % 2 ? 2.7 : 1.5) * em, "text-anchor": "middle" }, short(strength)),
    );
    const [name] = todo[0].defense.split("=");
    return [
      ...levels,
      ...strengths,
      text(
        { x: (left + right) / 2, y: y(0) + (crowded ? 4.2 : 3) * em, "text-anchor": "middle" },
        `${name}: weak to strong`,
      ),
    ];
  }

  curve({ of, colour, dashed = "none" }, { readings }, x, y) {
    const d = readings
      .map((row, n) => `${n ? "L" : "M"}${x(n).toFixed(1)} ${y(row.reason ? 0 : of(row)).toFixed(1)}`)
      .join("");
    return svg("path", { class: "ls-curve", d, style: `stroke: var(${colour}); stroke-dasharray: ${dashed}` });
  }

  point(row, { at, step, top, bottom, y, em }) {
    const marks = LINES.filter(({ symbol }) => symbol !== "✓" || row.exact).map(({ symbol, colour, of }) =>
      svg(
        "text",
        {
          x: at,
          y: y(of(row)) + (symbol === "✓" ? -0.5 : 0.35) * em,
          "text-anchor": "middle",
          style: `fill: var(${colour})`,
        },
        symbol,
      ),
    );
    const reach = svg("rect", {
      class: "ls-reach",
      x: at - step / 2,
      y: top - em / 2,
      width: step,
      height: bottom - top + em,
      rx: 6,
    });
    const node = svg(
      "g",
      { class: "ls-point", tabindex: "0", role: "button", "aria-label": `${this.told(row)}. Replay it` },
      svg("title", {}, `${this.told(row)}\nClick to replay its attack`),
      reach,
      ...marks,
    );
    reacting(node, this, () => row);
    return node;
  }

  told(row) {
    if (row.reason) return `${row.defense}: ${row.reason}`;
    const recovered = `${row.recover} % recovered${row.exact ? ", word for word" : ""}`;
    return `${row.defense}: ${recovered}, cosine ${readable(row.likeness)}, ${row.seconds} s`;
  }

  named(row) {
    return row.defense;
  }

  snapshot() {
    return picture([this.svg], this.report.title);
  }
}

const short = (strength) =>
  typeof strength === "number" ? readable(strength).replace("1.0·", "").replace(".0·", "·") : strength;
