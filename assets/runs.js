/* Starts and stops, from the buttons to the pictures: whichever run is started takes the place of the one under way.
   The ticket that is returned goes to the server, where whatever is older of this page ends (demo/ui/running.py). */
import { calm, found } from "./stage/dom.js";

let latest = null; // the picture whose run was started last

const nextTicket = () => performance.timeOrigin + performance.now() + Math.random(); // no two visitors have the same
const screenNamed = (name) => found(() => window[name]); // a quick click may come before its script

export async function start(name) {
  const screen = await screenNamed(name),
    ticket = nextTicket();
  if (latest !== screen) latest?.stopped();
  latest = screen;
  screen.waiting(ticket);
  const phone = matchMedia("(max-width: 959px)").matches; // one column: the picture has to come into view
  if (phone) screen.root.scrollIntoView({ behavior: calm.matches ? "auto" : "smooth" });
  return ticket;
}

// Null where the server has nothing to stop.
export async function stop(name) {
  const screen = await screenNamed(name),
    { pending } = screen;
  screen.stopped();
  screen.pending = false;
  return pending ? nextTicket() : null;
}

// The server is done with a run of this picture, without a last word.
export async function gone(name) {
  (await screenNamed(name)).gone();
}
