/* The tree of prefixes that a search on a decoder walks. Each frame tells how it grew (demo/screen/growth.py); here
   it is gathered up to the frame on show. */

const DEAD = 3; // dead words that are kept of each place: those that came nearest
const isCount = (value) => Number.isSafeInteger(value) && value >= 0;
const isNumber = (value) => value === null || Number.isFinite(value);
const isWord = (row) =>
  Array.isArray(row) && row.length === 3 && typeof row[0] === "string" && row[0].length <= 200 && isNumber(row[1]);
const isGrowth = (growth) =>
  Array.isArray(growth) &&
  growth.slice(0, 3).every(isCount) &&
  isWord(growth[3]) &&
  isNumber(growth[3][2]) &&
  Array.isArray(growth[4]) &&
  growth[4].every((row) => Array.isArray(row) && isCount(row[0]) && isWord(row.slice(1)) && isNumber(row[3]));

/* A frame's text -> how the tree grew, or null where it is something else: files come from anybody. */
export function grown(text) {
  try {
    const told = JSON.parse(text);
    return Array.isArray(told) && told.every(isGrowth) ? told : null;
  } catch {
    return null;
  }
}

const wordOf = ([word, chance, distance]) => ({ word, chance, distance });

export class Tree {
  constructor() {
    this.begin();
  }

  begin() {
    this.root = branch(0, { word: "", chance: null, distance: 0 }, null);
    this.branches = new Map([[0, this.root]]);
    Object.assign(this, { frames: null, shown: -1, turn: 0 });
  }

  // Frames are added one by one; going back begins anew.
  upTo(frames, shown) {
    if (frames !== this.frames || shown < this.shown) this.begin();
    for (let n = this.shown + 1; n <= shown; n += 1)
      if (frames[n].growth) for (const growth of grown(frames[n].growth) ?? []) this.add(growth);
    Object.assign(this, { frames, shown });
  }

  // What grows on a branch that the page has missed has no place; the last frame tells of it again.
  add([number, , tried, expected, rows]) {
    const parent = this.branches.get(number);
    if (!parent) return;
    this.turn += 1;
    Object.assign(parent, { tried, expected: wordOf(expected), turn: this.turn });
    for (const [own, ...told] of rows) {
      if (!own) parent.dead.push(wordOf(told));
      else if (!this.branches.has(own)) this.grow(branch(own, wordOf(told), parent));
    }
    const words = new Set(parent.children.map(({ word }) => word));
    parent.dead = parent.dead
      .filter(({ word }) => !words.has(word) && words.add(word))
      .sort((a, b) => a.distance - b.distance)
      .slice(0, DEAD);
  }

  grow(child) {
    child.parent.children.push(child);
    this.branches.set(child.number, child);
  }

  // The branches from the first word on that spell a guess, as far as they are known.
  spelling(words) {
    const path = [];
    for (const word of words) {
      const next = (path.at(-1) ?? this.root).children.find((child) => child.word === word);
      if (!next) break;
      path.push(next);
    }
    return path;
  }

  // The tips at which the walk is: not those that it has left behind without a follower.
  tips(recent) {
    const living = [...this.branches.values()].filter(({ children, number }) => number && !children.length);
    return living.filter(({ turn }) => !turn || turn > this.turn - recent);
  }
}

const branch = (number, { word, chance, distance }, parent) => ({
  number,
  word,
  chance,
  distance,
  parent,
  place: parent ? parent.place + 1 : -1,
  children: [],
  dead: [],
  expected: null,
  tried: 0,
  turn: 0, // of the walk, when words were last tried after it
});

export function pathTo(tip) {
  const path = [];
  for (let at = tip; at.number; at = at.parent) path.unshift(at);
  return path;
}
