/* The menu beside the playback: the run on the stage as a file, and files back onto the stage. */
import { html } from "./dom.js";
import { acceptDrops, openFile } from "./opening.js";
import { pageOf } from "./page.js";
import { recordingOf } from "./recording.js";
import { inPlace } from "./tiles.js";
import { picture, save, table } from "../survey/saving.js";

const KINDS = {
  Recording: {
    about: "JSON, to be opened here again",
    act: (stage) => save(`${nameOf(stage)}.json`, blob(JSON.stringify(recordingOf(stage)), "application/json")),
  },
  "Web page": {
    about: "HTML with its player, plays offline",
    act: async (stage) => save(`${nameOf(stage)}.html`, blob(await pageOf(recordingOf(stage)), "text/html")),
  },
  Table: {
    about: "CSV, a row for each frame",
    act: (stage) => save(`${nameOf(stage)}.csv`, blob(table(rows(stage)), "text/csv")),
  },
  Picture: {
    about: "PNG of the frame on show",
    act: async (stage) => save(`${nameOf(stage)}.png`, await pictureOf(stage)),
  },
};

export class Saving {
  constructor(stage) {
    this.stage = stage;
    this.told = html("div", { class: "ls-told", role: "status" });
    this.buttons = Object.entries(KINDS).map(([kind, { about, act }]) => this.button(kind, about, () => act(stage)));
    this.file = html("input", {
      type: "file",
      accept: ".json,application/json",
      class: "ls-file",
      "aria-label": "A recording to open",
      tabindex: "-1",
    });
    this.file.addEventListener("change", () => {
      if (this.file.files[0]) openFile(this.file.files[0], stage, (words) => this.tell(words));
      this.file.value = "";
    });
    const open = this.button("Open a recording…", "or drop its file onto the page", () => this.file.click());
    this.menu = html(
      "details",
      { class: "ls-save" },
      html("summary", { class: "ls-button" }, "Save"),
      html(
        "div",
        { class: "ls-menu" },
        ...this.buttons,
        html("p", {}, "Each of them holds the sentence: the secret itself, or what was recovered of it."),
        open,
        this.file,
      ),
    );
    this.node = html("div", { class: "ls-saving" }, this.menu, this.told);
    this.menu.addEventListener("toggle", () => this.refresh());
    this.menu.addEventListener("keydown", (event) => event.key === "Escape" && this.close(true));
    document.addEventListener("click", (event) => !this.menu.contains(event.target) && this.close());
    acceptDrops(stage, (words) => this.tell(words));
  }

  button(kind, about, act) {
    const node = html("button", { type: "button", class: "ls-choice" }, html("b", {}, kind), html("span", {}, about));
    node.addEventListener("click", async () => {
      this.close(true);
      this.tell("");
      try {
        await act();
      } catch (problem) {
        this.tell(`Not saved: ${problem.message}.`);
      }
    });
    return node;
  }

  refresh() {
    for (const node of this.buttons) node.disabled = !this.stage.frames.length || !this.stage.start;
  }

  close(andFocus = false) {
    if (!this.menu.open) return;
    this.menu.open = false;
    if (andFocus) this.menu.firstChild.focus();
  }

  tell(words) {
    this.told.textContent = words;
  }
}

const blob = (text, type) => new Blob([text], { type: `${type};charset=utf-8` });
const nameOf = ({ start }) => `leakscope-${(start.attack || "run").replace(/[^\w-]/g, "").slice(0, 40)}`;

function rows({ frames, start }) {
  return frames.map((frame) => ({
    seconds: frame.seconds,
    step: frame.step,
    tokens: frame.tokens.join(" "),
    "in place": inPlace(frame),
    of: start.truth.length,
    "recover %": frame.recover,
    "ROUGE-1 %": frame.rouge1,
    "ROUGE-L %": frame.rougeL,
    objective: frame.objective,
    stage: frame.stage,
  }));
}

function pictureOf({ root, start, frames, shown }) {
  const parts = [".ls-tilebox", ".ls-status", ".ls-prefixes", ".ls-plots", ".ls-verdict"].map((part) =>
    root.querySelector(part),
  );
  return picture(parts, `${start.title} · frame ${shown + 1} of ${frames.length}`);
}
