/* What the map and the sweep have in common: reports come in, the latest is drawn, a finished place can be taken to the
   attack, and what is shown can be saved. Texts come from people: they reach the page through textContent only. */
import { html } from "../stage/dom.js";
import { Announcer } from "../stage/announcer.js";
import { Follower } from "../stage/follower.js";
import { save, table } from "./saving.js";

export class Survey extends Follower {
  constructor(root, { name, recording, onPick }) {
    super(root, (place) => this.setState("waiting", place));
    Object.assign(this, { name, onPick, report: null });
    root.classList.add("ls-survey");
    this.title = html("span", { class: "ls-title" });
    this.recorded = html("span", { class: "ls-badge", hidden: "" }, "recorded run");
    this.progress = html("div", { class: "ls-progress" });
    this.picture = html("div", { class: "ls-shown" });
    this.detail = html("div", { class: "ls-found" }, "Point at a result to read what was recovered.");
    this.announcer = new Announcer();
    root.replaceChildren(
      html("div", { class: "ls-head" }, this.title, this.recorded),
      this.progress,
      this.announcer.node,
      this.picture,
      this.detail,
      this.buildSaving(),
    );
    this.setState("empty");
    if (recording) this.load(new URL(recording, document.baseURI));
  }

  async load(url) {
    this.folder = new URL(".", url);
    try {
      const report = await (await fetch(url)).json();
      if (this.root.dataset.state !== "empty") return;
      this.report = report;
      this.setState("recorded");
    } catch {
      // No recording within reach: the empty picture says what to do.
    }
  }

  receive(report) {
    if (report.error) return this.fails(report.error);
    this.report = report;
    this.setState(report.over ? "done" : "running");
  }

  fails(problem) {
    this.setState("error", problem);
  }

  waiting(ticket) {
    this.report = null;
    this.setState("waiting");
    this.follow(ticket);
  }

  stopped() {
    if (!this.underWay) return;
    this.leave();
    if (this.report) this.report = { ...this.report, now: null };
    this.setState("stopped");
  }

  setState(state, problem = "") {
    const { report } = this;
    if (state !== "waiting") this.line.leave();
    Object.assign(this.root.dataset, { state, readings: report?.readings.length ?? 0, run: report?.run ?? "" });
    const begun = ["stopped", "error"].includes(state) && report?.readings.length;
    this.root.toggleAttribute("data-unfinished", Boolean(begun && begun < report.total));
    this.title.textContent = report?.title ?? "";
    this.recorded.hidden = state !== "recorded";
    this.progress.textContent = problem || this.progressOf(state);
    if (state !== "recorded") this.announcer.say(this.progress.textContent);
    for (const button of this.saving) button.disabled = !report?.readings.length;
    if (report) this.draw(report);
  }

  progressOf(state) {
    if (!this.report) return TOLD[state] ?? "";
    const { readings, total, left, budget } = this.report,
      count = `${readings.length} of ${total}`;
    const exact = readings.filter((row) => row.exact).length;
    if (readings.length === total) return `${exact} of ${total} recovered word for word, with at most ${budget} s each`;
    return state === "stopped" ? `Stopped after ${count}` : [count, lasting(left)].filter(Boolean).join(" · ");
  }

  // A place that was recorded plays, where its own run is; unless the person's own is under way.
  pick(row) {
    const { asked, recorded = false } = this.report,
      stage = window.leakscope;
    if (recorded && row.recording && !stage?.underWay) stage?.open(new URL(`${row.recording}.json`, this.folder));
    this.onPick({ ...row, asked, recorded });
  }

  tell(row) {
    if (row) this.detail.textContent = `${this.named(row)}: ${row.reason || `“${row.text}”`}`;
  }

  buildSaving() {
    const kinds = {
      CSV: () => save(`${this.name}.csv`, new Blob([table(this.report.readings)], { type: "text/csv" })),
      PNG: async () => save(`${this.name}.png`, await this.snapshot()),
    };
    this.saving = Object.entries(kinds).map(([kind, act]) => {
      const button = html(
        "button",
        { type: "button", class: "ls-button", title: `Save what is shown as ${kind}` },
        kind,
      );
      button.addEventListener("click", act);
      return button;
    });
    return html("div", { class: "ls-saving" }, "Save ", ...this.saving);
  }
}

// A button of the picture: clicked or entered, it is taken to the attack; pointed at, it tells what was read.
export function reacting(node, survey, row) {
  node.addEventListener("pointerenter", () => survey.tell(row()));
  node.addEventListener("focus", () => survey.tell(row()));
  const pick = () => survey.pick(row());
  node.addEventListener("click", () => row() && pick());
  node.addEventListener("keydown", (event) => {
    if (!["Enter", " "].includes(event.key) || !row()) return;
    event.preventDefault();
    pick();
  });
}

function lasting(seconds) {
  if (!Number.isFinite(seconds)) return "";
  return seconds >= 90 ? `about ${Math.round(seconds / 60)} min left` : `about ${Math.round(seconds)} s left`;
}

const TOLD = {
  empty: "Press Start: the results appear here one by one.",
  waiting: "Getting ready…",
  stopped: "Stopped before the first result.",
};
