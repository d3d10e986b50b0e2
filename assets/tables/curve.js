/* How many sentences come back as the noise grows: a line for each slice, drawn by Plotly once its box is on screen. */
import { html } from "../stage/dom.js";
import { loadPlotly } from "../stage/projection.js";

const LOOKS = [
  { colour: "--ls-accent", symbol: "circle", dash: "solid" },
  { colour: "--ls-blue", symbol: "diamond", dash: "dash" },
  { colour: "--ls-right-ink", symbol: "square", dash: "dot" },
  { colour: "--ls-moved-ink", symbol: "x", dash: "dashdot" },
];

export class NoiseCurve {
  constructor(plotly, columns, rows) {
    Object.assign(this, { columns, rows });
    this.node = html("div", { class: "ls-curve-box", role: "img", "aria-label": this.told() });
    new ResizeObserver(() => this.draw()).observe(this.node);
    new MutationObserver(() => this.draw()).observe(document.body, { attributeFilter: ["class"] });
    loadPlotly(plotly).then(
      () => this.draw(),
      () => this.node.remove(),
    ); // the table below says the same
  }

  lines() {
    const { group, x, y } = this.columns;
    return [...new Set(this.rows.map((row) => row[group]))].map((name) => {
      const rows = this.rows.filter((row) => row[group] === name);
      return { name, rows, x: rows.map((row) => Number(row[x])), y: rows.map((row) => Number(row[y])) };
    });
  }

  told() {
    return this.lines()
      .map(({ name, x, y }) => `${name}: ${x.map((sigma, n) => `${y[n]} % at ${sigma}`).join(", ")}`)
      .join("; ");
  }

  draw() {
    if (!window.Plotly || !this.node.clientWidth || !this.node.isConnected) return;
    const style = getComputedStyle(this.node),
      colour = (name) => style.getPropertyValue(name).trim(),
      size = Math.round(0.85 * parseFloat(style.fontSize));
    const traces = this.lines().map(({ name, rows, x, y }, n) => {
      const look = LOOKS[n % LOOKS.length];
      return {
        name,
        x,
        y,
        mode: "lines+markers",
        line: { color: colour(look.colour), dash: look.dash, width: 2 },
        marker: { symbol: look.symbol, size: 8 },
        text: rows.map((row) => `ε ${row[this.columns.hover]}`),
        hovertemplate: "%{y} % at σ = %{x}, %{text}",
      };
    });
    const axis = { gridcolor: colour("--ls-line"), linecolor: colour("--ls-line"), zeroline: false, fixedrange: true };
    Plotly.react(
      this.node,
      traces,
      {
        font: { family: style.fontFamily, color: colour("--ls-fg"), size },
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        margin: { l: 56, r: 12, t: 8, b: 48 },
        height: this.node.clientHeight,
        width: this.node.clientWidth,
        hovermode: "closest",
        legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
        xaxis: {
          ...axis,
          type: "log",
          title: { text: "noise σ", standoff: 8 },
          dtick: this.node.clientWidth < 500 ? 2 : 1,
          tickangle: 0,
          exponentformat: "power",
        },
        yaxis: { ...axis, range: [-4, 104], title: { text: "sentences, word for word (%)" }, tickvals: [0, 50, 100] },
      },
      { displayModeBar: false },
    );
    this.node.dataset.drawn = traces.length;
  }
}
