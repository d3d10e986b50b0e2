/* A recording: one run as a file, the same that demo/screen/recordings.py writes. Files come from anybody, so what
   is read is checked field by field and built anew; nothing else of the file is kept. The shapes, which say what a
   field may hold, are made from demo/screen/recording_format.py. */

import { grown } from "./growth.js";
import { FRAMES, SHAPES } from "./shapes.js";

export const FORMAT = "leakscope-run",
  VERSION = 1;
export const MOST_BYTES = 32e6;

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

/* A JSON schema of a field -> how it is tested, in words for people too. */
function kindOf(schema) {
  if (schema.$ref) return { shape: shapeOf(schema.$ref.split("/").at(-1)), nullable: schema.nullable };
  if (schema.items?.$ref) return { each: shapeOf(schema.items.$ref.split("/").at(-1)), most: schema.maxItems };
  const { words, test } = TYPES[schema.type](schema);
  const told = schema.description ?? words;
  if (!schema.nullable) return { words: told, test };
  return { words: `${told} or null`, test: (value) => value === null || test(value) };
}

function shapeOf(name) {
  const { required, properties } = SHAPES[name];
  return Object.fromEntries(
    Object.entries(properties).map(([field, schema]) => [
      field,
      { ...kindOf(schema), optional: !required.includes(field) },
    ]),
  );
}

const within = (value, { minimum = -Infinity, maximum = Infinity }) => value >= minimum && value <= maximum;
const FORMATS = { tree: (text) => grown(text) !== null };
const TYPES = {
  boolean: () => ({ words: "true or false", test: (value) => typeof value === "boolean" }),
  integer: (schema) => ({
    words: "a whole number",
    test: (value) => Number.isSafeInteger(value) && within(value, schema),
  }),
  number: (schema) => ({
    words: schema.maximum === 100 ? "a number from 0 to 100" : "a number",
    test: (value) => Number.isFinite(value) && within(value, schema),
  }),
  string: ({ maxLength, pattern = "", format }) => {
    const right = new RegExp(pattern),
      readable = FORMATS[format] ?? (() => true);
    return {
      words: `a text of at most ${maxLength} letters`,
      test: (value) => typeof value === "string" && value.length <= maxLength && right.test(value) && readable(value),
    };
  },
  array: ({ items, prefixItems, minItems = 0, maxItems }) => {
    const kinds = prefixItems?.map(kindOf),
      every = items && kindOf(items);
    return {
      words: `a list of at most ${maxItems}, each ${every?.words}`,
      test: (value) =>
        Array.isArray(value) &&
        value.length >= minItems &&
        value.length <= maxItems &&
        value.every((one, n) => (kinds?.[n] ?? every).test(one)),
    };
  },
};
const START = shapeOf("Start"),
  FRAME = shapeOf("Frame"),
  END = shapeOf("End");

function rebuilt(value, shape, where) {
  if (value === null || typeof value !== "object" || Array.isArray(value))
    throw new Damaged(`the recording is damaged: ${where} is missing`);
  const whole = {};
  for (const [name, kind] of Object.entries(shape)) {
    const given = Object.hasOwn(value, name) ? value[name] : undefined;
    if (kind.optional && (given === undefined || (given === null && kind.nullable))) continue;
    if (kind.each) whole[name] = several(given, kind, `${where}, ${name}`);
    else if (kind.shape) whole[name] = rebuilt(given, kind.shape, `${where}, ${name}`);
    else if (kind.test(given)) whole[name] = given;
    else throw new Damaged(`the recording is damaged: ${name} of ${where} is not ${kind.words}`);
  }
  return whole;
}

function several(value, { each, most }, where) {
  if (!Array.isArray(value) || value.length > most)
    throw new Damaged(`the recording is damaged: ${where} is not a list of at most ${most}`);
  return value.map((one) => rebuilt(one, each, where));
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
