/* The secret's box: examples to tap, and the way back to a text of the person's own that something else took the
   place of, be it an example, a place of the map, a lesson or a link. Enter attacks; Shift+Enter adds a line. */
import { html, nextPaint } from "./stage/dom.js";

const MOST_KEPT = 20;
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

export class Sentence {
  constructor(root, examples) {
    this.examples = new Set(Object.values(examples));
    this.replaced = []; // the person's own texts, the latest last
    this.fresh = false; // nothing was typed since the latest was replaced
    this.text = this.box?.value ?? "";
    root.replaceChildren(this.buildUndo(), this.buildExamples(examples));
    document.addEventListener("input", (event) => event.target === this.box && this.typed(), true);
    document.addEventListener("keydown", (event) => event.target === this.box && this.key(event), true);
    // Gradio would have it the other way round: Enter a line, Shift+Enter a submission.
    document.addEventListener(
      "keypress",
      (event) => event.target === this.box && event.key === "Enter" && event.stopPropagation(),
      true,
    );
  }

  get box() {
    return document.querySelector("#sentence textarea");
  }

  buildUndo() {
    this.told = html("span", { class: "ls-undo-told", role: "status" });
    this.back = html("button", { type: "button", class: "ls-undo-button", hidden: "" }, "↶ Undo");
    this.back.addEventListener("click", () => this.undo());
    return html("div", { class: "ls-undo" }, this.told, this.back);
  }

  // One of them is in the tab order; the arrow keys walk from it.
  buildExamples(examples) {
    const chips = Object.entries(examples).map(([name, text], n) => {
      const chip = html("button", { type: "button", class: "ls-chip", title: text, tabindex: n ? "-1" : "0" }, name);
      chip.addEventListener("click", () => this.put(text));
      return chip;
    });
    const bar = html(
      "div",
      { class: "ls-chips", role: "toolbar", "aria-label": "Examples" },
      html("span", { class: "ls-chips-name", "aria-hidden": "true" }, "Examples"),
      ...chips,
    );
    bar.addEventListener("keydown", (event) => {
      const at = chips.indexOf(event.target),
        next = chips[at + STEPS[event.key]];
      if (!next) return;
      event.preventDefault();
      for (const chip of chips) chip.tabIndex = chip === next ? 0 : -1;
      next.focus();
    });
    return bar;
  }

  typed() {
    this.text = this.box.value;
    this.fresh = false;
    this.show();
  }

  // Gradio tells of every change; one that nobody typed has come from elsewhere on the page.
  async changed() {
    await nextPaint();
    if (this.box && this.box.value !== this.text) this.replace(this.box.value);
  }

  put(text) {
    const { box } = this;
    if (text === box.value) return;
    this.replace(text);
    const { fresh } = this;
    this.write(text);
    this.fresh = fresh;
    this.show();
  }

  write(text) {
    this.box.value = text;
    this.box.dispatchEvent(new InputEvent("input", { bubbles: true })); // Gradio takes it for typed
  }

  replace(text) {
    const before = this.text,
      kept = text.startsWith(`${before}\n`); // lines were added to it
    this.replaced = this.replaced.filter((other) => other !== text && other !== before);
    if (this.isOwn(before) && !kept) this.replaced = [...this.replaced, before].slice(-MOST_KEPT);
    this.fresh = this.replaced.length > 0 && (this.fresh || this.replaced.at(-1) === before);
    this.text = text;
    this.show();
  }

  isOwn(text) {
    return text.split("\n").some((line) => line.trim() && !this.examples.has(line.trim()));
  }

  // What stands in the box now can be had again too: pressed on and on, Undo goes round all of them.
  undo() {
    const back = this.replaced.pop(),
      now = this.box.value;
    if (this.isOwn(now)) this.replaced.unshift(now);
    this.write(back);
    this.told.textContent = "Your text is back.";
    this.box.focus();
  }

  show() {
    this.back.hidden = !this.replaced.length;
    this.back.title = this.replaced.length ? `Bring back: ${this.replaced.at(-1)}` : "";
    this.told.textContent = this.fresh ? "Your text was replaced." : "";
  }

  key(event) {
    const command = event.ctrlKey || event.metaKey;
    if (event.key.toLowerCase() === "z" && command && !event.shiftKey && this.fresh && this.replaced.length) {
      event.preventDefault();
      this.undo();
    }
    if (event.key !== "Enter" || event.isComposing) return; // while composing, Enter takes a word
    if (event.shiftKey || command || event.altKey) return;
    event.preventDefault();
    if (!event.repeat) document.querySelector("#go")?.click();
  }
}
