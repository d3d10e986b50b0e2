/* What the stage and the comparison have in common: one player, a place in line, keys, and no more than one drawing
   a paint. Each of them says how to `begin` a run, how it `fails`, and how to `draw`. */
import { calm, html } from "./dom.js";
import { Follower } from "./follower.js";
import { Player } from "./player.js";
import { onSpace } from "./space.js";

const REST_ON_LAST = 4000;

export class Screen extends Follower {
  constructor(root) {
    super(root, (place) => {
      this.place = place;
      this.paint();
    });
    this.player = new Player(
      () => this.paint(),
      () => this.endLoop(),
      () => this.rest(),
    );
    root.addEventListener("keydown", (event) => this.key(event));
    onSpace(() => this.playPause());
  }

  waiting(ticket) {
    this.begin(null, "waiting");
    this.follow(ticket);
    this.paint();
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
    const { key, target } = event,
      { shown } = this.player;
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (target.closest("select, input, [role=tab]")) return;
    const goal = { ArrowLeft: shown - 1, ArrowRight: shown + 1, Home: 0, End: Infinity }[key];
    if (goal === undefined) return;
    this.player.seek(goal);
    event.preventDefault();
  }

  // False where there is nothing to play, or it is out of sight.
  playPause() {
    if (!this.root.getClientRects().length || !this.player.frames.length) return false;
    this.player.playPause();
    return true;
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
