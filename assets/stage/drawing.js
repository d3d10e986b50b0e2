/* The drawing of the model: every block is a button that exposes its gradient. Data flows from the top to the
   bottom. */
import { html } from "./dom.js";

const COMPACT_FROM = 9;

export class Drawing {
  constructor(root, onPick) {
    Object.assign(this, { root, onPick, rows: [], column: 0 });
    root.classList.add("ls-drawing");
    this.board = html("div", { class: "ls-board", role: "toolbar", "aria-label": "Which part of the gradient leaks" });
    this.exposed = html("div", { class: "ls-exposure", "aria-live": "polite" });
    this.hint = html("div", { class: "ls-hint" }, "Shift-click adds a layer");
    root.replaceChildren(this.board, this.exposed, this.hint);
    this.board.addEventListener("keydown", (event) => this.key(event));
  }

  show(spec) {
    const shape = JSON.stringify([spec.model, spec.layers, spec.decoder, Object.keys(spec.slices)]);
    this.spec = spec;
    if (shape !== this.shape) this.build();
    this.shape = shape;
    for (const block of this.rows.flat()) this.describe(block);
    this.exposed.textContent = spec.exposed;
    this.exposed.classList.remove("ls-stale");
    this.light();
    this.reveal();
  }

  build() {
    const focused = this.board.contains(document.activeElement);
    const layers = Array.from({ length: this.spec.layers }, (_, layer) => this.layerRow(layer));
    const [all, embeddings, encoder, head] = ["all", "embeddings", "encoder", "head"].map((slice) => {
      const label = this.spec.slices[slice]?.short;
      return this.row(`ls-${slice}`, label, [this.block(slice, label)]);
    });
    this.board.classList.toggle("ls-compact", this.spec.layers >= COMPACT_FROM);
    const matrices = this.spec.slices.layer.holds.filter((slice) => slice !== "qkv").length;
    this.board.style.setProperty("--ls-matrices", matrices);
    const stack = html("div", { class: "ls-layers" }, ...layers.map((row) => row.node));
    this.board.replaceChildren(
      all.node,
      embeddings.node,
      html("div", { class: "ls-frame" }, encoder.node, stack),
      head.node,
    );
    this.rows = [all, embeddings, encoder, ...layers, head].map((row) => row.blocks).filter((blocks) => blocks.length);
    this.stack = stack;
    this.moveTo(this.rows.flat().find((block) => this.glows(block)) ?? this.rows[0][0], focused);
  }

  // Of many layers a few are in sight: those that leak are.
  reveal() {
    const { stack } = this;
    const leaking = stack.querySelector("[aria-pressed=true]");
    if (!leaking || this.board.contains(document.activeElement)) return;
    const top = leaking.getBoundingClientRect().top - stack.getBoundingClientRect().top;
    if (top < 0 || top + leaking.offsetHeight > stack.clientHeight) stack.scrollTop += top - stack.clientHeight / 2;
  }

  row(name, label, blocks) {
    const known = blocks.filter((block) => this.spec.slices[block.slice]);
    return {
      blocks: known,
      node: html(
        "div",
        { class: `ls-row ${name}`, role: "group", "aria-label": label },
        ...known.map((block) => block.node),
      ),
    };
  }

  layerRow(layer) {
    const label = layer === this.spec.decoder ? "decoder" : `layer ${layer}`;
    const inside = this.spec.slices.layer.holds;
    return this.row("ls-layer", label, [
      this.block("layer", label, layer),
      ...inside.map((slice) => this.block(slice, this.spec.slices[slice].short, layer)),
    ]);
  }

  block(slice, short, layer = null) {
    const block = {
      slice,
      short,
      layer,
      node: html("button", { type: "button", class: `ls-block ls-block-${slice}`, tabindex: "-1" }, short),
    };
    block.node.addEventListener("click", (event) => {
      this.moveTo(block);
      this.pick(block, event.shiftKey || event.ctrlKey || event.metaKey);
    });
    return block;
  }

  describe({ slice, short, layer, node }) {
    const { slices, sizes = {}, help = {}, decoder } = this.spec;
    const where = layer === null ? "" : ` of layer ${layer}${layer === decoder ? ", the decoder" : ""}`;
    const name = slice === "layer" ? where.replace(" of ", "") : `${slices[slice].title}${where}`;
    const size = sizes[slice] ? `${sizes[slice]} parameters` : "";
    node.title = [name, help[slice], size].filter(Boolean).join("\n");
    node.setAttribute(
      "aria-label",
      [name.startsWith(short) ? name : `${short}: ${name}`, size].filter(Boolean).join(", "),
    );
    node.setAttribute("aria-description", help[slice] ?? "");
  }

  // A block glows when it is exposed itself or is part of what is.
  glows({ slice, layer }) {
    const { slice: leaked, chosen } = this.spec;
    if (leaked === "all") return true;
    if (leaked === "encoder") return layer !== null || slice === "encoder";
    if (layer === null) return slice === leaked;
    return chosen.includes(layer) && (slice === leaked || this.spec.slices[leaked].holds.includes(slice));
  }

  light() {
    for (const block of this.rows.flat()) block.node.setAttribute("aria-pressed", this.glows(block));
  }

  pick({ slice, layer }, adding) {
    const { slice: leaked, chosen } = this.spec;
    let layers = layer === null ? [] : [layer];
    if (adding && layer !== null && slice === leaked) {
      const others = chosen.filter((known) => known !== layer);
      layers = chosen.includes(layer) ? others : [...others, layer].sort((a, b) => a - b);
      if (!layers.length) return; // something has to leak
    }
    this.spec = { ...this.spec, slice, chosen: layers };
    this.light(); // at once; the count follows with the next show()
    this.exposed.classList.add("ls-stale");
    this.onPick({ slice, layers });
  }

  // One block is in the tab order; the arrow keys walk from it.
  moveTo(block, focus = false) {
    for (const other of this.rows.flat()) other.node.tabIndex = -1;
    block.node.tabIndex = 0;
    this.current = block;
    if (focus) block.node.focus();
  }

  key(event) {
    const at = this.rows.findIndex((row) => row.includes(this.current));
    const row = this.rows[at],
      column = row.indexOf(this.current);
    if (row.length > 1) this.column = column; // kept while passing the rows of one block
    const below = this.rows[at + 1],
      above = this.rows[at - 1];
    const inColumn = (blocks) => blocks?.[Math.min(this.column, blocks.length - 1)];
    const adds = event.key === "+" || (event.key === "Enter" && event.shiftKey);
    const next = {
      ArrowRight: row[column + 1],
      ArrowLeft: row[column - 1],
      ArrowDown: inColumn(below),
      ArrowUp: inColumn(above),
      Home: this.rows[0][0],
      End: this.rows.at(-1)[0],
    };
    if (adds) this.pick(this.current, true);
    else if (next[event.key]) this.moveTo(next[event.key], true);
    else if (!(event.key in next)) return;
    event.preventDefault();
  }
}
