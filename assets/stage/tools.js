/* What stands over the tiles: what their marks mean, and other ways to read them. */
import { html } from "./dom.js";
import { legend } from "./tiles.js";

export function toolsOf(stage) {
  const { tiles, table } = stage;
  const compare = stage.switch("Compare with the truth", (on) => {
    for (const view of [tiles, table]) view.compare(on);
  });
  const asTable = stage.switch("Table", (on) => {
    tiles.node.hidden = on;
    table.node.hidden = !on;
  });
  const maskKey = html("span", { hidden: "" }, html("b", { class: "ls-swatch" }), " what dropout kept");
  const node = html(
    "div",
    { class: "ls-tools" },
    html("span", { class: "ls-key" }, ...legend(), maskKey),
    html("span", { class: "ls-switches" }, asTable, compare),
  );
  return { node, maskKey };
}
