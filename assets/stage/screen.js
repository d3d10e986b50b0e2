/* What the stage and the comparison have in common: one player, a place in line, keys, and no more than one drawing a paint.
   Each of them says how to `begin` a run, how it `fails`, and how to `draw`. */
import { calm, html } from "./dom.js";
import { GONE, Line, SETTLED } from "./line.js";
import { Player } from "./player.js";

const REST_ON_LAST = 4000;

export class Screen {
  constructor(root) {
    this.root = root;
    this.player = new Player(() => this.paint(), () => this.endLoop(), () => this.rest());
    this.line = new Line((place) => {
      this.place = place;
      this.paint();
    });
    root.addEventListener("keydown", (event) => this.key(event));
  }

  // What is still under way of a run is not shown any more.
  close() {
    this.closed = this.run ?? this.closed;
  }

  waiting(ticket) {
    this.close();
    this.begin(null, "waiting");
    this.line.wait(ticket);
    this.paint();
  }

  // The server is done with the run.
  gone() {
    const { run } = this, { ticket } = this.line;
    setTimeout(() => {
      const problem = GONE[this.root.dataset.state];
      if (this.run !== run || this.line.ticket !== ticket || !problem) return;
      this.fails(problem);
      this.paint();
    }, SETTLED);
  }

  // Plays over and over, until somebody touches it; for those who want calm it stands still.
  loop() {
    if (calm.matches) return this.paint();
    this.looping = true;
    this.player.play();
  }

  rest() {
    if (this.looping) this.restTimer = setTimeout(() => this.player.play(), REST_ON_LAST);
  }

  endLoop() {
    this.looping = false;
    clearTimeout(this.restTimer);
  }

  paint() {
    if (this.painting) return;
    this.painting = true;
    requestAnimationFrame(() => {
      this.painting = false;
      this.draw();
    });
  }

  key(event) {
    const { key, target } = event, { shown } = this.player;
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (target.closest("select, [role=tab]") || (key === " " && target.closest("button")) || (key !== " " && target.closest("input"))) return;
    const goal = { ArrowLeft: shown - 1, ArrowRight: shown + 1, Home: 0, End: Infinity }[key];
    if (key === " ") this.player.playPause();
    else if (goal !== undefined) this.player.seek(goal);
    else return;
    event.preventDefault();
  }

  switch(name, act) {
    const button = html("button", { type: "button", class: "ls-button ls-switch", "aria-pressed": "false" }, name);
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", on);
      act(on);
      this.paint();
    });
    return button;
  }
}
