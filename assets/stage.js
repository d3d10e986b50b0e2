/* The stage: the attacker's side of the wall. It keeps the frames of one run and draws any of them: token tiles, a
   status line, the tree of prefixes where one was walked, the map of word embeddings, and curves. Words come from
   people: they reach the page through textContent, and Plotly through plain() only. */
import { html, nextPaint, pause, uniqueId } from "./stage/dom.js";
import { Announcer } from "./stage/announcer.js";
import { Tiles, inPlace } from "./stage/tiles.js";
import { TokenTable } from "./stage/table.js";
import { toolsOf } from "./stage/tools.js";
import { Measures } from "./stage/measures.js";
import { PrefixTree } from "./stage/tree.js";
import { WordMap } from "./stage/map.js";
import { Screen } from "./stage/screen.js";
import { Verdict } from "./stage/verdict.js";

export class Stage extends Screen {
  constructor(root, { plotly: url, recording, view = {} } = {}) {
    super(root);
    this.buildParts();
    this.begin(null, "empty");
    if (view.projection === "3d") this.map.pick(1);
    this.player.setSpeed(Number(view.speed));
    new MutationObserver(() => this.setTheme()).observe(document.body, { attributeFilter: ["class"] });
    if (recording) this.loadRecording(recording);
    // Plotly is large: the tiles move first.
    nextPaint()
      .then(() => pause(50))
      .then(() => this.map.load(url));
  }

  get frames() {
    return this.player.frames;
  }

  get shown() {
    return this.player.shown;
  }

  receive(message) {
    if (message.run !== this.run) this.begin(message.run, "running");
    if (message.start && !this.start) this.setStart(message.start, message.asked);
    if (message.progress) this.progress = message.progress;
    if (message.frame) this.add(message.frame);
    if (message.error) this.fails(message.error);
    else if (message.end) this.finish("done", message.end);
    this.paint();
  }

  fails(headline) {
    this.finish("error", { headline });
    this.paint();
  }

  stopped() {
    if (!this.underWay) return;
    this.leave();
    const last = this.frames.at(-1);
    const headline = last ? `Stopped at step ${last.step}: ${this.score(last)}.` : "Stopped before the first step.";
    this.finish("stopped", { headline });
    this.paint();
  }

  setTheme() {
    this.map.refresh();
    this.paint();
  }

  async loadRecording(url) {
    this.root.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(url);
      const recording = await answer.json();
      if (this.root.dataset.state === "empty") this.replay(recording);
    } catch {
      // No recording within reach: the empty stage says what to do.
    }
    this.root.removeAttribute("aria-busy");
    this.paint();
  }

  replay({ messages }) {
    this.leave();
    const run = uniqueId();
    for (const message of messages) this.receive({ ...message, run });
    if (!this.frames.length) return this.begin(null, "empty");
    this.root.dataset.state = "recorded";
    this.player.running = this.player.following = false;
    this.loop();
  }

  // A recording that somebody asked for: it stands at a frame, or plays once.
  present(recording, frame = "play") {
    if (this.pending) document.querySelector("#stop")?.click();
    this.replay(recording);
    if (frame !== "play") return this.player.seek({ first: 0, last: Infinity }[frame] ?? frame);
    this.looping = false;
  }

  async open(url) {
    const recording = await fetch(url)
      .then((answer) => answer.json())
      .catch(() => null);
    if (recording) this.present(recording); // else what is on show stays, and says what it is
  }

  begin(run, state) {
    this.endLoop();
    this.line.leave();
    Object.assign(this, { run, start: null, asked: null, end: null, grows: false, place: "", progress: "" });
    Object.assign(this.root.dataset, { run: run ?? "", state });
    this.player.begin(state === "running" || state === "waiting");
    this.tiles.clear();
    this.tree.begin();
    this.plots.after(this.player.node, this.verdict.node);
    this.map.begin(null, []);
    this.root.dispatchEvent(new Event("ls-run"));
  }

  setStart(start, asked = null) {
    Object.assign(this, { start, asked });
    this.tiles.begin(start);
    this.table.begin(start);
    this.settle();
    this.root.dispatchEvent(new Event("ls-run"));
  }

  add(frame) {
    this.player.add(frame);
    if (frame.growth && !this.grows) this.grow();
    if (this.frames.length === 1) this.settle();
  }

  // A tree takes the room of the map, which goes below: what plays and what came of it stay in sight.
  grow() {
    this.grows = true;
    this.tree.node.after(this.player.node, this.verdict.node);
  }

  settle() {
    this.map.begin(this.start, this.frames[0]?.points ?? []);
  }

  finish(state, end) {
    this.line.leave();
    this.end = end;
    this.root.dataset.state = state;
    this.player.running = this.player.following = false;
  }

  score(frame) {
    return `${inPlace(frame)} of ${this.start?.truth?.length ?? frame.tokens.length} tokens in place`;
  }

  draw() {
    const frame = this.frames[this.shown];
    Object.assign(this.root.dataset, { frames: this.frames.length, shown: this.shown });
    this.drawHead();
    this.player.draw();
    const status = this.statusOf(frame);
    this.status.textContent = status;
    const verdict = this.drawVerdict();
    // The recording at the door plays without a word; a person's own run is told.
    if (this.root.dataset.state !== "recorded") this.announcer.say(verdict || status);
    if (!frame) return;
    this.tiles.draw(frame);
    this.table.draw(frame, this.start?.truth);
    this.maskKey.hidden = !frame.masks;
    // What grew a moment ago is dead or alive when all is over.
    if (this.grows) this.tree.draw(this.frames, this.shown, this.start, this.end && this.shown === this.player.last);
    this.measures.draw(this.frames, this.shown, this.start ?? {});
    this.map.show(this.frames, this.shown);
  }

  drawHead() {
    const { title = "", device = "", exposed = "", recorded = false } = this.start ?? {};
    this.title.textContent = title || "The attack";
    this.device.textContent = device;
    this.exposed.textContent = exposed && `sees ${exposed}`;
    this.recorded.hidden = !recorded;
  }

  statusOf(frame) {
    if (!frame) return this.calm();
    const parts = [`step ${frame.step}`, this.score(frame), `${frame.seconds.toFixed(1)} s`];
    if (frame.left > 0 && !(this.end && this.shown === this.player.last)) parts.push(`${frame.left} s left`);
    return parts.join(" · ") + (frame.stage ? ` — ${frame.stage}` : "");
  }

  // What is said while there is no frame.
  calm() {
    const { state } = this.root.dataset;
    if (state === "running" && this.progress) return `Getting ready: ${this.progress}…`;
    return (state === "waiting" && this.place) || (CALM[state] ?? "");
  }

  drawVerdict() {
    // A recording keeps its end for its last frame.
    const end = this.start?.recorded && this.shown < this.player.last ? null : this.end;
    this.verdict.draw(end, this.root.dataset.state === "empty" ? "" : undefined);
    return end ? `${end.headline} ${end.detail ?? ""}` : "";
  }

  buildParts() {
    this.root.classList.add("ls-stage");
    this.tiles = new Tiles();
    this.table = new TokenTable();
    this.announcer = new Announcer();
    const tools = toolsOf(this);
    this.maskKey = tools.maskKey;
    this.title = html("span", { class: "ls-title" });
    this.device = html("span", { class: "ls-badge" });
    this.recorded = html("span", { class: "ls-badge ls-recorded", hidden: "" }, "recorded run");
    this.exposed = html("span", { class: "ls-exposed" });
    this.status = html("div", { class: "ls-status" });
    this.verdict = new Verdict();
    this.map = new WordMap(this.root, () => this.paint());
    this.tree = new PrefixTree();
    this.measures = new Measures();
    this.plots = html("div", { class: "ls-plots" }, this.map.node, this.measures.node);
    this.root.replaceChildren(
      html("div", { class: "ls-head" }, this.title, this.device, this.recorded, this.exposed),
      tools.node,
      this.tiles.node,
      this.table.node,
      this.status,
      this.announcer.node,
      this.tree.node,
      this.plots,
      this.player.node,
      this.verdict.node,
    );
  }
}

const CALM = {
  empty: "Type a sentence, choose what leaks and press Attack: what the gradient gives away appears here.",
  waiting: "Taking the client's training step…",
  running: "Taking the client's training step…",
  error: "Nothing was attacked.",
  stopped: "Nothing was attacked.",
};
