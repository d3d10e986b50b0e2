/* The place in line of a run that waits for others: asked for every second, until the run begins or is given up. */
const EVERY = 1000;

export class Line {
  constructor(onPlace) {
    this.onPlace = onPlace;
  }

  wait(ticket) {
    this.leave();
    this.ticket = ticket;
    this.timer = setTimeout(() => this.ask(), EVERY / 4); // Gradio has to know of the run first
  }

  leave() {
    clearTimeout(this.timer);
    this.ticket = null;
  }

  async ask() {
    const { ticket } = this;
    try {
      const answer = await fetch(new URL(`line?ticket=${ticket}`, document.baseURI));
      const { before } = await answer.json();
      if (ticket === this.ticket) this.onPlace(before ? `In line: ${before} before you.` : "");
    } catch {
      // Out of reach for now: how the run ends is told in any case.
    }
    if (ticket === this.ticket) this.timer = setTimeout(() => this.ask(), EVERY);
  }
}

// A run that ended without a last word: said once what it did say has had the time to be shown.
export const SETTLED = 1000;
export const GONE = {
  waiting: "Not started: too many are in line. Try again in a moment.",
  running: "Broken off: something went wrong on the server.",
};
