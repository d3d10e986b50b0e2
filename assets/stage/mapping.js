/* What the maps of words share, whoever draws them: the legend, the way behind a guess, ranges and labels. */
import { html } from "./dom.js";

const TRAIL = 12;
const CROWD = 24; // words
export const EXPLAINED =
  "Each word is a vector of hundreds of numbers, its embedding. Principal component analysis (PCA) draws the " +
  "directions in which these words differ most. Circles are the true words; filled marks are what the attacker " +
  "guesses, and travel there.";
const LEGEND = [
  ["ls-of-truth", "○", "true word"],
  ["ls-of-right", "●", "guess in place"],
  ["ls-of-moved", "◆", "in the wrong place"],
  ["ls-of-wrong", "✖", "wrong"],
  ["ls-of-crowd", "•", "other words"],
];

export const legend = () =>
  html(
    "div",
    { class: "ls-legend" },
    ...LEGEND.map(([name, symbol, words]) => html("span", {}, html("b", { class: name }, symbol), ` ${words}`)),
  );

// The way here: the last quarter of the run so far, in a dozen positions.
export function trail(frames, shown) {
  const stride = Math.ceil((shown + 1) / (4 * TRAIL));
  const first = Math.max(0, Math.floor(shown / stride) - TRAIL + 1);
  const places = Array.from({ length: TRAIL }, (_, k) => (first + k) * stride).filter((place) => place < shown);
  return [...places.map((place) => frames[place]), frames[shown]];
}

export function spread(values) {
  if (!values.length) return [-1000, 1000];
  const low = Math.min(...values),
    high = Math.max(...values),
    room = 0.12 * (high - low) || 100;
  return [low - room, high + room];
}

// The side of each point on which its label covers the fewest points and labels, all in pixels. In a crowd, as of a
// batch,
// a word that would be written across another is left to the pointer.
export function labelled(spots, names, type, width, height) {
  const points = spots.map(([x, y]) => [x - 9, y - 9, x + 9, y + 9]),
    written = [];
  return spots.map(([x, y], i) => {
    const long = 0.6 * type * names[i].length,
      tall = 1.2 * type;
    const boxes = {
      "top center": [x - long / 2, y - 10 - tall],
      "middle right": [x + 10, y - tall / 2],
      "middle left": [x - 10 - long, y - tall / 2],
      "bottom center": [x - long / 2, y + 10],
    };
    const choices = Object.entries(boxes).map(([side, [left, top]]) => {
      const box = [left, top, left + long, top + tall];
      const out = left < 0 || top < 0 || box[2] > width || box[3] > height;
      return { side, box, cost: [...points, ...written].filter((other) => overlap(box, other)).length + (out ? 3 : 0) };
    });
    const { side, box } = choices.reduce((one, other) => (other.cost < one.cost ? other : one));
    if (!names[i] || (spots.length > CROWD && written.some((other) => overlap(box, other)))) return { side, name: "" };
    written.push(box);
    return { side, name: names[i] };
  });
}
const overlap = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
