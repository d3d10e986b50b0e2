/* The figures of a run beside the map: the strip of candidate words, what the attack makes small, and what it found. */
import { build, html } from "./dom.js";
import { Chart, Strip } from "./curves.js";

const SCORES = [
  { key: "recover", name: "words", colour: "--ls-right-ink" },
  { key: "rougeL", name: "ROUGE-L", colour: "--ls-blue" },
];
const EXPLAINED = {
  found:
    "Words: the share of the true tokens that occur in the guess, in any place (TAG's recover rate). " +
    "ROUGE-L: how much of the sentence is there in the right order.",
  strip:
    "The leaked gradient spans a small space in which the sentence's own words lie, and hardly any other. " +
    "At 0 a word lies in it. Through dropout: the share of a word's coordinates that disagree with the span. " +
    "Dropout alone explains as many as its rate.",
};
// Of recordings from before the attacks said what they measure.
const UNNAMED = {
  title: "How far the guess is off, as the attack measures it",
  log: true,
  about: "What the attack makes small: how badly the guess explains the leaked gradient.",
};

export class Measures {
  constructor() {
    this.strip = new Strip();
    this.objective = new Chart([{ key: "objective", name: "", colour: "--ls-accent" }], { room: 5.5 });
    this.found = new Chart(SCORES, { unit: " %", room: 9.6, most: 100 });
    const pictures = ["strip", "objective", "found"];
    for (const name of pictures)
      build(this[name].title, { class: "ls-caption ls-explained", title: EXPLAINED[name] ?? "" });
    this.found.title.textContent = "Found so far";
    this.node = html("div", { class: "ls-curves" }, ...pictures.map((name) => this[name].node));
  }

  draw(frames, shown, { objectives = [] } = {}) {
    const spans = frames.some(({ candidates }) => candidates);
    this.strip.node.hidden = !spans;
    const withWords = spans && frames.findLast((past, i) => i <= shown && past.candidates);
    if (withWords) this.strip.draw(withWords.candidates);
    const { meaning } = frames[shown];
    this.objective.tell(objectives.find(({ name }) => name === meaning) ?? { ...UNNAMED, name: meaning });
    this.objective.draw(frames, shown);
    this.found.draw(frames, shown);
  }
}
