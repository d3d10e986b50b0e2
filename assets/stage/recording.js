/* A recording: one run as a file, the same that demo/screen/recordings.py writes. Files come from anybody, so what
   is read is checked field by field and built anew; nothing else of the file is kept. */

import { grown } from "./growth.js";

export const FORMAT = "leakscope-run",
  VERSION = 1;
export const MOST_BYTES = 32e6;
const FRAMES = 5000,
  TOKENS = 600,
  WORDS = 1000,
  LETTERS = 200,
  TEXT = 2000,
  TREE = 500_000; // letters that tell how one grew

export class Damaged extends Error {}

/* What is on the stage -> the recording, ready for JSON. */
export function recordingOf({ start, frames, end }) {
  const messages = frames.map((frame) => ({ frame }));
  Object.assign(messages[0], { start: { ...start, recorded: true } });
  if (end) Object.assign(messages.at(-1), { end });
  return { format: FORMAT, version: VERSION, messages };
}

/* A file's text -> the recording, or an error that says what is wrong with it. */
export function read(text) {
  if (text.length > MOST_BYTES) throw new Damaged(tooLarge(text.length));
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Damaged("this is no recording, or it was cut off: it is not whole JSON");
  }
  if (file?.format !== FORMAT) throw new Damaged("this is no recording of Leakscope: save one with Save → Recording");
  if (file.version !== VERSION)
    throw new Damaged(`the recording is of version ${shown(file.version)}: this page reads version ${VERSION}`);
  if (!Array.isArray(file.messages) || !file.messages.length)
    throw new Damaged("the recording is empty: it has no frames");
  if (file.messages.length > FRAMES)
    throw new Damaged(`the recording has ${file.messages.length} frames: at most ${FRAMES} can be shown`);
  const messages = file.messages.map((message, k) => {
    const whole = { frame: rebuilt(message?.frame, FRAME, `frame ${k + 1}`) };
    if (k === 0) whole.start = rebuilt(message.start, START, "the start");
    if (k === file.messages.length - 1 && message.end !== undefined) whole.end = rebuilt(message.end, END, "the end");
    return whole;
  });
  consistent(messages);
  return { format: FORMAT, version: VERSION, messages };
}

export const tooLarge = (bytes) =>
  `the file has ${Math.ceil(bytes / 1e6)} MB: a recording may have ${MOST_BYTES / 1e6}`;

/* What a field may hold, in words for people. */
const field = (words, test) => ({ words, test });
const optional = (kind) => ({ ...kind, optional: true });
const number = field("a number", (value) => Number.isFinite(value) && Math.abs(value) < 1e12);
const natural = field("a whole number", (value) => Number.isSafeInteger(value) && value >= 0);
const percent = field("a number from 0 to 100", (value) => Number.isFinite(value) && value >= 0 && value <= 100);
const truth = field("true or false", (value) => typeof value === "boolean");
const text = (most) =>
  field(`a text of at most ${most} letters`, (value) => typeof value === "string" && value.length <= most);
const list = (each, most) =>
  field(
    `a list of at most ${most}, each ${each.words}`,
    (value) => Array.isArray(value) && value.length <= most && value.every(each.test),
  );
const point = field("three numbers", (value) => Array.isArray(value) && value.length === 3 && value.every(number.test));
const known = field(
  "a word and three numbers",
  (value) => Array.isArray(value) && text(LETTERS).test(value[0]) && point.test(value.slice(1)),
);
const bits = field(
  "base64",
  (value) =>
    typeof value === "string" && value.length <= TEXT && /^[A-Za-z0-9+/]*={0,2}$/.test(value) && value.length % 4 === 0,
);
const marks = field(
  "made of = ~ x",
  (value) => typeof value === "string" && value.length <= TOKENS && /^[=~x]*$/.test(value),
);
const tree = field(
  "how a tree of prefixes grew",
  (value) => typeof value === "string" && value.length <= TREE && grown(value) !== null,
);
const maybe = (kind) => field(`${kind.words} or null`, (value) => value === null || kind.test(value));
const of = (shape) => ({ shape, words: "an object" });
const each = (shape) => ({ each: shape, words: "a list of objects" });

const START = {
  title: text(TEXT),
  attack: text(LETTERS),
  device: text(LETTERS),
  exposed: text(TEXT),
  budget: number,
  recorded: truth,
  truth: list(text(LETTERS), TOKENS),
  breaks: list(natural, TOKENS),
  truth_points: list(point, TOKENS),
  background: list(known, WORDS),
  variance: list(percent, 3),
  whose: optional(list(text(LETTERS), TOKENS)),
  unreadable: optional(text(LETTERS)),
  objectives: optional(
    each({ name: text(LETTERS), title: text(LETTERS), about: text(TEXT), log: truth, goal: optional(number) }),
  ),
};
const CANDIDATES = { place: natural, words: list(text(LETTERS), WORDS), distances: list(number, WORDS) };
const FRAME = {
  n: natural,
  step: natural,
  seconds: number,
  left: number,
  tokens: list(text(LETTERS), TOKENS),
  marks,
  sure: list(percent, TOKENS),
  others: list(text(TEXT), TOKENS),
  points: list(point, TOKENS),
  objective: maybe(number),
  recover: percent,
  rouge1: percent,
  rougeL: percent,
  stage: text(TEXT),
  meaning: optional(text(LETTERS)),
  candidates: optional(of(CANDIDATES)),
  growth: optional(tree),
  masks: optional(list(bits, TOKENS)),
  masks_right: optional(list(percent, TOKENS)),
};
const END = { headline: text(TEXT), detail: optional(text(TEXT)), certified: optional(truth), exact: optional(truth) };

function rebuilt(value, shape, where) {
  if (value === null || typeof value !== "object" || Array.isArray(value))
    throw new Damaged(`the recording is damaged: ${where} is missing`);
  const whole = {};
  for (const [name, kind] of Object.entries(shape)) {
    const given = Object.hasOwn(value, name) ? value[name] : undefined;
    if (given === undefined && kind.optional) continue;
    if (kind.each) whole[name] = several(given, kind.each, `${where}, ${name}`);
    else if (kind.shape) whole[name] = rebuilt(given, kind.shape, `${where}, ${name}`);
    else if (kind.test(given)) whole[name] = given;
    else throw new Damaged(`the recording is damaged: ${name} of ${where} is not ${kind.words}`);
  }
  return whole;
}

function several(value, shape, where) {
  if (!Array.isArray(value) || value.length > WORDS)
    throw new Damaged(`the recording is damaged: ${where} is not a list of at most ${WORDS}`);
  return value.map((one) => rebuilt(one, shape, where));
}

/* The lists of a frame belong together, and frames come one after the other. */
function consistent(messages) {
  const { truth: words, truth_points: places, breaks } = messages[0].start;
  const wrong = (what) => new Damaged(`the recording is damaged: ${what}`);
  if (words.length !== places.length) throw wrong("the start has not as many points as words");
  if (breaks.some((place, k) => place <= (breaks[k - 1] ?? 0) || place >= words.length))
    throw wrong("its sentences do not follow each other");
  messages.forEach(({ frame }, k) => {
    const { tokens, candidates } = frame;
    const lists = ["marks", "sure", "others", "points", "masks", "masks_right"].filter(
      (name) => frame[name] !== undefined,
    );
    if (lists.some((name) => frame[name].length !== tokens.length))
      throw wrong(`frame ${k + 1} has lists of different lengths`);
    if (candidates && candidates.words.length !== candidates.distances.length)
      throw wrong(`frame ${k + 1} has lists of different lengths`);
    const before = messages[k - 1]?.frame;
    if (before && (frame.n <= before.n || frame.seconds < before.seconds))
      throw wrong(`frame ${k + 1} is out of order`);
  });
}

const shown = (value) => String(value).slice(0, 20);
