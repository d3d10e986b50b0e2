/* What the stage shows, where it is not what the controls ask for: said above it, and the stage fades. */
import { found, pause } from "./dom.js";

const SETTLING = 400; // milliseconds, in which the controls and the stage follow each other

export class Shown {
  constructor(node) {
    this.node = node;
  }

  // What Attack would run: { title, truth }.
  async update(asked) {
    this.asked = asked;
    if (!this.stage) {
      this.stage = await found(() => window.leakscope);
      this.stage.root.addEventListener("ls-run", () => this.refresh());
    }
    this.refresh();
  }

  async refresh() {
    const said = this.said();
    if (said) await pause(SETTLING);
    if (said !== this.said()) return; // another look is under way
    const { stage } = this;
    if (this.node.textContent !== said) this.node.textContent = said;
    stage.root.classList.toggle("ls-stale", Boolean(said));
    if (said && stage.looping) stage.player.seek(Infinity);
  }

  said() {
    const shown = this.stage.asked ?? this.stage.start;
    const different = shown && differences(shown, this.asked);
    return different?.length ? `Shown: ${different.join(" · ")}. Press Attack for yours.` : "";
  }
}

function differences(shown, asked) {
  const [parts, others] = [shown, asked].map(({ title = "" }) => title.split(" · "));
  const own = parts.filter((part) => !others.includes(part)),
    missing = others.filter((part) => !parts.includes(part));
  const { truth = [] } = shown,
    same = truth.length === asked.truth.length && truth.every((word, n) => word === asked.truth[n]);
  return [...(same ? [] : ["another sentence"]), ...(own.length ? own : missing.map((part) => `without ${part}`))];
}
