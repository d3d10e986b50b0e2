/* The comparison: two runs on one timeline. A moment of it is the latest frame of each side at that second, so one
   player and one chart serve both. Words come from people: they reach the page through textContent only. */
import { html } from "../stage/dom.js";
import { Announcer } from "../stage/announcer.js";
import { Chart } from "../stage/curves.js";
import { Screen } from "../stage/screen.js";
import { legend } from "../stage/tiles.js";
import { Column } from "./column.js";

const LINES = [
  { key: "a", name: "A", colour: "--ls-accent" },
  { key: "b", name: "B", colour: "--ls-blue" },
];

export class Comparison extends Screen {
  constructor(root, { recording } = {}) {
    super(root);
    this.buildParts();
    this.begin(null, "empty");
    if (recording) this.load(recording);
    this.paint();
  }

  async load(url) {
    try {
      const { messages } = await (await fetch(url)).json();
      if (this.root.dataset.state === "empty") this.replay(messages);
    } catch {
      // No recording within reach: the empty picture says what to do.
    }
  }

  replay(messages) {
    for (const message of messages) this.receive(message);
    this.setState("recorded");
    this.loop();
  }

  receive(message) {
    if (message.run !== this.run) this.begin(message.run, "running");
    if (message.error) this.fails(message.error);
    else if (message.progress) this.place = `Getting ready: ${message.progress}…`;
    else if (message.frames) this.take(message);
    this.paint();
  }

  take({ common, starts = {}, frames, ends, said }) {
    this.common = common;
    for (const [side, column] of Object.entries(this.columns)) {
      if (starts[side]) column.setStart(starts[side]);
      if (frames[side] && column.add(frames[side])) this.addMoment();
      if (ends[side]) column.end = ends[side];
    }
    if (!said) return;
    this.said = said;
    this.setState("done");
  }

  addMoment() {
    const { A, B } = this.columns,
      seconds = Math.max(A.last?.seconds ?? 0, B.last?.seconds ?? 0);
    this.player.add({
      n: this.moments++,
      seconds,
      A: A.last,
      B: B.last,
      a: A.last?.recover ?? 0,
      b: B.last?.recover ?? 0,
    });
  }

  fails(problem) {
    this.said = problem;
    this.setState("error");
    this.paint();
  }

  stopped() {
    if (!this.underWay) return;
    this.leave();
    const scores = Object.values(this.columns)
      .filter(({ last }) => last)
      .map((column) => `${column.side} had ${column.score(column.last)}`);
    this.said = scores.length ? `Stopped: ${scores.join(", ")}.` : "Stopped before the first step.";
    this.setState("stopped");
    this.paint();
  }

  begin(run, state) {
    this.endLoop();
    Object.assign(this, { run, common: "", said: "", place: "", moments: 0 });
    this.root.dataset.run = run ?? "";
    this.setState(state);
    this.player.begin(state === "running" || state === "waiting");
    for (const column of Object.values(this.columns)) column.begin();
  }

  setState(state) {
    if (state !== "waiting") this.line.leave();
    this.root.dataset.state = state;
    if (state !== "running" && state !== "waiting") this.player.running = this.player.following = false;
  }

  draw() {
    const { frames, shown } = this.player,
      { state } = this.root.dataset,
      moment = frames[shown];
    Object.assign(this.root.dataset, { frames: frames.length, shown });
    this.title.textContent = this.common;
    this.recorded.hidden = state !== "recorded";
    for (const [side, column] of Object.entries(this.columns)) column.draw(moment?.[side]);
    this.player.draw();
    this.chart.draw(frames, shown);
    const said = shown === frames.length - 1 ? this.said : "";
    this.conclusion.textContent = said || (moment ? this.progress(moment) : this.place || TOLD[state]);
    this.conclusion.classList.toggle("ls-open", !said);
    if (state !== "recorded") this.announcer.say(this.conclusion.textContent);
  }

  progress(moment) {
    const scores = Object.values(this.columns)
      .filter(({ side }) => moment[side])
      .map((column) => `${column.side} has ${column.score(moment[column.side])}`);
    return `After ${moment.seconds.toFixed(1)} s, ${scores.join(" and ")}.`;
  }

  buildParts() {
    this.columns = { A: new Column("A"), B: new Column("B") };
    this.announcer = new Announcer();
    this.title = html("span", { class: "ls-title" });
    this.recorded = html("span", { class: "ls-badge ls-recorded", hidden: "" }, "recorded run");
    this.conclusion = html("div", { class: "ls-conclusion" });
    this.chart = new Chart(LINES, { unit: " %", room: 5, most: 100 });
    this.chart.title.textContent = "Words found, in any place, by each one's own seconds";
    const { A, B } = this.columns;
    this.root.replaceChildren(
      html("div", { class: "ls-head" }, this.title, this.recorded),
      this.conclusion,
      this.announcer.node,
      this.buildTools(),
      html("div", { class: "ls-pair" }, A.node, B.node),
      this.chart.node,
      this.player.node,
    );
  }

  buildTools() {
    const truth = this.switch("Compare with the truth", (on) => {
      for (const { tiles } of Object.values(this.columns)) tiles.compare(on);
    });
    return html("div", { class: "ls-tools" }, html("span", { class: "ls-key" }, ...legend()), truth);
  }
}

const TOLD = {
  empty: "Choose what A and B do differently and press Compare: both appear here, on one clock.",
  waiting: "Taking both clients' training steps…",
};
