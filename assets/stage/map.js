/* The panel of the map: the same words in two dimensions or in three, one of them on show. */
import { build, html, uniqueId } from "./dom.js";
import { EXPLAINED, legend, trail } from "./mapping.js";
import { Projection, loadPlotly } from "./projection.js";

export class WordMap {
  constructor(root, changed) {
    this.changed = changed;
    this.projections = [2, 3].map(
      (dimensions) =>
        new Projection(dimensions, (cost) => {
          const count = `drawn${dimensions}d`;
          root.dataset[count] = Number(root.dataset[count] ?? 0) + 1;
          root.dataset.drawing = Math.round(cost);
        }),
    );
    this.tabs = this.projections.map((projection, k) => this.tab(projection, k));
    this.panels = this.projections.map(({ host }, k) =>
      html("div", { role: "tabpanel", id: uniqueId(), class: "ls-panel", "aria-labelledby": this.tabs[k].id }, host),
    );
    for (const [k, tab] of this.tabs.entries()) tab.setAttribute("aria-controls", this.panels[k].id);
    this.node = html(
      "div",
      { class: "ls-map" },
      html(
        "div",
        { class: "ls-caption" },
        html("span", { class: "ls-explained", title: EXPLAINED }, "Word embeddings, projected (PCA)"),
        html("span", { class: "ls-tabs", role: "tablist", "aria-label": "Dimensions of the map" }, ...this.tabs),
      ),
      ...this.panels,
      legend(),
    );
    this.pick(0);
  }

  tab({ dimensions }, k) {
    const tab = html("button", { type: "button", role: "tab", id: uniqueId(), class: "ls-tab" }, `${dimensions}D`);
    tab.addEventListener("click", () => this.pick(k));
    tab.addEventListener("keydown", ({ key }) => {
      if (!["ArrowLeft", "ArrowRight", "Home", "End"].includes(key)) return;
      const next = key === "Home" ? 0 : key === "End" ? 1 : 1 - k;
      this.pick(next);
      this.tabs[next].focus();
    });
    return tab;
  }

  pick(chosen) {
    this.chosen = chosen;
    this.tabs.forEach((tab, k) => {
      this.panels[k].hidden = k !== chosen;
      build(tab, { "aria-selected": k === chosen, tabindex: k === chosen ? 0 : -1 });
    });
    this.changed();
  }

  begin(start, points) {
    for (const projection of this.projections) projection.begin(start, points);
  }

  show(frames, shown) {
    this.projections[this.chosen].show(frames[shown], trail(frames, shown));
  }

  async load(plotly) {
    try {
      await loadPlotly(plotly);
      this.projections[this.chosen].pump();
    } catch (problem) {
      for (const { host } of this.projections) host.dataset.note = `No map: ${problem.message}.`;
    }
  }

  // Plotly takes its colours anew.
  refresh() {
    for (const projection of this.projections) projection.fresh = true;
  }
}
