import { html } from "./dom.js";

const ANNOUNCE_EVERY = 2000; // milliseconds

/* Speaks to screen readers, at most once in two seconds, always the latest. */
export class Announcer {
  constructor() {
    this.node = html("div", { class: "ls-unseen", "aria-live": "polite" });
    this.last = 0;
    this.timer = null;
  }

  say(text) {
    this.text = text;
    this.timer ??= setTimeout(
      () => {
        this.timer = null;
        this.last = performance.now();
        if (this.node.textContent !== this.text) this.node.textContent = this.text;
      },
      Math.max(0, this.last + ANNOUNCE_EVERY - performance.now()),
    );
  }
}
