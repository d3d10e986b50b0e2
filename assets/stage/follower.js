/* Follows one run on the server, from its ticket to its last word. What comes of another one is not listened to.
   Each picture says how to `receive` a message, and how it `fails`. */
import { pause } from "./dom.js";
import { Line } from "./line.js";

const SETTLED = 1000; // milliseconds, in which what a run did say is shown
const GONE = {
  waiting: "Not started: too many are in line. Try again in a moment.",
  running: "Broken off: something went wrong on the server.",
};

export class Follower {
  constructor(root, onPlace) {
    Object.assign(this, { root, ticket: null, pending: false, line: new Line(onPlace) });
  }

  get underWay() {
    return this.root.dataset.state in GONE;
  }

  follow(ticket) {
    Object.assign(this, { ticket, pending: true }); // pending: the server may still be at it
    this.line.wait(ticket);
  }

  leave() {
    this.ticket = null;
    this.line.leave();
  }

  hear(message) {
    if (message.ticket !== this.ticket) return;
    this.receive(message);
    if (!this.underWay) this.pending = false;
  }

  // It may have been an older run that ended so: the server knows.
  async gone() {
    const { ticket } = this;
    await pause(SETTLED);
    if (this.ticket !== ticket || !this.underWay || (await this.line.holds(ticket))) return;
    this.pending = false;
    this.fails(GONE[this.root.dataset.state]);
  }
}
