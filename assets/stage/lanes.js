/* A tree of prefixes laid out for drawing: a lane for each path that lives, a column for each place. A prefix that two
   paths share stands in the upper one's lane. */
import { pathTo } from "./growth.js";

const BLANK = "▢"; // what stands where nothing is guessed yet (demo/screen/messages.py)
const LANES = 24;
const TWIGS = 3; // at each place

/* A frame's guess -> its sentences, each up to where nothing is guessed yet. */
export function guesses({ tokens }, { breaks = [], truth = [] }) {
  const ends = [...breaks, breaks.length ? truth.length : tokens.length];
  return ends.map((end, n) => {
    const words = tokens.slice(n ? ends[n - 1] : 0, end),
      blank = words.indexOf(BLANK);
    return { words: blank < 0 ? words : words.slice(0, blank), room: words.length };
  });
}

/* -> the cells to draw, lane by lane. `over`: the walk has ended, and what is not in the guess is dead. */
export function laidOut(tree, sentences, over) {
  const guessed = sentences.map(({ words }) => ({ words, path: tree.spelling(words) }));
  const growing = over ? [] : tree.tips(2 * sentences.length).map((tip) => ({ words: [], path: pathTo(tip) }));
  const lanes = apart([...guessed, ...growing], tree);
  const read = new Set(guessed.flatMap(({ path }) => path)),
    living = new Set(lanes.flatMap(({ path }) => path));
  const room = lanes.length > 1 ? 0 : sentences[0].room;
  const cells = lanes.flatMap((lane, n) => cellsOf(lane, n, tree.root, { read, living, room }));
  return { cells, lanes: lanes.length };
}

// In the tree's own order, without those that go no further than another one.
function apart(paths, tree) {
  const order = new Map(depthFirst(tree.root).map((branch, n) => [branch, n]));
  const length = ({ words, path }) => Math.max(words.length, path.length);
  const sorted = paths
    .map((lane) => ({ ...lane, order: order.get(lane.path.at(-1)) ?? Infinity }))
    .sort((a, b) => length(b) - length(a));
  const kept = sorted.filter((lane, n) => !sorted.slice(0, n).some((other) => within(lane, other)));
  const lanes = kept.slice(0, LANES).sort((a, b) => a.order - b.order);
  lanes.forEach((lane, n) => {
    lane.above = n ? lanes.findIndex((other) => shared(other, lane) === mostShared(lanes.slice(0, n), lane)) : 0;
    lane.first = n ? mostShared(lanes.slice(0, n), lane) : 0;
  });
  return lanes;
}

const shared = (one, other) => {
  const end = one.path.findIndex((branch, n) => branch !== other.path[n]);
  return end < 0 ? one.path.length : end;
};
const mostShared = (lanes, lane) => Math.max(...lanes.map((other) => shared(other, lane)));
const within = (lane, other) =>
  shared(lane, other) === lane.path.length && (lane.words.length <= lane.path.length || lane.words.every(same(other)));
const same = (other) => (word, n) => (other.path[n]?.word ?? other.words[n]) === word;

function depthFirst(root) {
  const found = [],
    waiting = [root];
  while (waiting.length) {
    const branch = waiting.pop();
    found.push(branch);
    waiting.push(...branch.children.toReversed());
  }
  return found;
}

/* A lane's own cells: words that live, words of the guess of which the tree does not know, and room for what is yet to
   come. */
function cellsOf({ path, words, first, above }, lane, root, { read, living, room }) {
  const length = Math.max(path.length, words.length, room, 1);
  return Array.from({ length: Math.max(0, length - first) }, (_, n) => {
    const place = first + n,
      branch = path[place] ?? null,
      parent = place ? (path[place - 1] ?? null) : root;
    const word = branch?.word ?? words[place] ?? "";
    const kind = branch ? (read.has(branch) ? "read" : "open") : word ? "told" : "room";
    const key = branch ? `b${branch.number}` : `${lane}.${place}.${word && 1}`;
    const drop = n || !lane ? 0 : lane - above;
    return { key, kind, lane, place, drop, word, branch, parent, twigs: twigsOf(parent, word, living) };
  });
}

// What else was tried after the same prefix: the model's own favourite, dead ends, and words that came near.
function twigsOf(parent, word, living) {
  if (!parent) return [];
  const { expected, children, dead } = parent;
  const ends = children.filter((branch) => !living.has(branch)),
    alive = children.filter((branch) => living.has(branch)).map((branch) => branch.word);
  const favourite = expected && expected.word !== word && !alive.includes(expected.word) ? [expected] : [];
  const others = [
    ...favourite.map((one) => ({ ...one, kind: "expected" })),
    ...ends.filter((one) => one.word !== expected?.word).map((one) => ({ ...one, kind: "end" })),
    ...dead.filter((one) => one.word !== expected?.word && one.word !== word).map((one) => ({ ...one, kind: "dead" })),
  ];
  return others.slice(0, TWIGS).map(({ kind, word, chance, distance }) => ({ kind, word, chance, distance }));
}
