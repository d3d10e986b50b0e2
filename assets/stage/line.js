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
    const { before } = await placeOf(ticket);
    if (ticket !== this.ticket) return;
    this.onPlace(before ? `Waiting: ${before} run${before > 1 ? "s" : ""} ahead of yours.` : "");
    this.timer = setTimeout(() => this.ask(), EVERY);
  }

  // Whether the server still has the run.
  async holds(ticket) {
    return (await placeOf(ticket)).there ?? false;
  }
}

async function placeOf(ticket) {
  try {
    return await (await fetch(new URL(`line?ticket=${ticket}`, document.baseURI))).json();
  } catch {
    return {}; // Out of reach for now: how the run ends is told in any case.
  }
}
