/* The lesson under way: it says a step, shows its recording on the stage, points at the part of the screen it talks
   of, and tells the page which controls to set. Who leaves it finds the controls as they were before. */
import { calm, found, html, pause, uniqueId } from "../stage/dom.js";
import { tabNamed, worded } from "./text.js";

const SETTLING = [0, 600]; // milliseconds, in which controls open and the stage finds its size
const FOLDED = ["#how", "#defenses"]; // groups that a step may open
const unfolded = (group) => Boolean(group?.querySelector("[data-testid=accordion-content]")?.getClientRects().length);
const KEYS = { ArrowRight: 1, PageDown: 1, ArrowLeft: -1, PageUp: -1 };

export class Panel {
  constructor(root, { lessons, glossary, places }, { recordings, onOpen, onStep }) {
    Object.assign(this, {
      root,
      lessons,
      glossary,
      places,
      recordings,
      onOpen,
      onStep,
      lesson: null,
      at: 0,
      loaded: new Map(),
      own: null,
    });
    this.order = Object.keys(lessons);
    this.build();
    root.addEventListener("keydown", (event) => this.key(event));
  }

  build() {
    const button = (name, words, act) => {
      const node = html("button", { type: "button", class: `ls-button ls-${name}` }, words);
      node.addEventListener("click", act);
      return node;
    };
    this.title = html("h3", { id: uniqueId(), class: "ls-lesson-title" });
    this.progress = html("span", { class: "ls-lesson-progress" });
    this.text = html("p", { class: "ls-lesson-text", "aria-live": "polite" });
    this.meaning = html("p", { class: "ls-meaning", id: uniqueId(), "aria-live": "polite", hidden: "" });
    this.problem = html("p", { class: "ls-lesson-problem", role: "alert", hidden: "" });
    this.back = button("back", "Previous", () => this.move(-1));
    this.on = button("on", "Next", () => this.move(1));
    const leave = button("leave", "Leave", () => this.leave());
    const told = { role: "region", tabindex: "-1", "aria-labelledby": this.title.id };
    for (const [name, value] of Object.entries(told)) this.root.setAttribute(name, value);
    this.root.replaceChildren(
      html("div", { class: "ls-lesson-head" }, this.title, this.progress, leave),
      this.text,
      this.meaning,
      this.problem,
      html(
        "div",
        { class: "ls-lesson-tools" },
        this.back,
        this.on,
        html("span", { class: "ls-lesson-keys" }, "or ← and → here, Esc leaves"),
      ),
    );
  }

  // The name may come from a link: anybody can write one.
  async open(name) {
    if (!Object.hasOwn(this.lessons, name)) return;
    if (!this.lesson) this.onOpen();
    this.lesson = this.lessons[name];
    this.at = 0;
    this.root.hidden = false;
    document.documentElement.classList.add("ls-teaching");
    for (const { recording } of this.lesson.steps) this.load(recording).catch(() => {}); // said when its step is shown
    tabNamed("attack")?.click();
    this.show();
    await found(() => this.root.getClientRects().length).catch(() => {});
    this.root.focus({ preventScroll: true }); // keys go to the lesson, once its tab is in front
  }

  // The step that the controls should show, for the server; null for none any more.
  get step() {
    return this.lesson && { lesson: this.lesson.name, step: this.at };
  }

  // The person's own controls, for the way out; those of a lesson that is just being left are not.
  keep(values) {
    this.own ??= { values, open: FOLDED.map((id) => unfolded(document.querySelector(id))) };
  }

  // What the controls are to be again, once a lesson has been left: the groups' state, then the values.
  restored(drawing) {
    if (this.lesson || !this.own) return undefined;
    const { values, open } = this.own;
    const spec = { ...JSON.parse(values[drawing]), given: uniqueId() + performance.now() }; // not picked in the drawing
    this.own = null;
    return [
      ...open.map((on) => ({ __type__: "update", open: on })),
      ...values.map((value, n) => (n === drawing ? JSON.stringify(spec) : value)),
    ];
  }

  // A lesson that the page's own link names: over the controls that the link has set.
  async openLinked(name) {
    await found(() => window.leakscopeLinks?.opened).catch(() => {});
    this.open(name);
  }

  leave() {
    this.point(null);
    this.lesson = null;
    this.onStep();
    this.root.hidden = true;
    document.documentElement.classList.remove("ls-teaching");
    document.querySelector("#go")?.focus({ preventScroll: true });
  }

  get following() {
    return this.order[this.order.indexOf(this.lesson.name) + 1];
  }

  move(by) {
    const goal = this.at + by,
      over = goal >= this.lesson.steps.length;
    if (goal < 0) return;
    if (over) return this.following ? this.open(this.following) : this.leave();
    this.at = goal;
    this.show();
  }

  async show() {
    const { lesson, at } = this,
      { steps } = lesson,
      step = steps[at],
      last = at === steps.length - 1;
    this.title.textContent = lesson.title;
    this.progress.textContent = `${at + 1} of ${steps.length}`;
    Object.assign(this.root.dataset, { lesson: lesson.name, step: at + 1 });
    this.text.replaceChildren(...worded(step.text, (term, node) => this.explain(term, node)));
    this.explain(null);
    this.back.disabled = at === 0;
    const next = this.following && this.lessons[this.following].title;
    this.on.textContent = !last ? "Next" : next ? `Next lesson: ${next}` : "Done";
    this.onStep();
    this.problem.hidden = true;
    try {
      await this.stage(step);
    } catch {
      const advice = "look at your connection and go back and on again";
      this.problem.textContent = `The recording ${step.recording} could not be loaded: ${advice}.`;
      this.problem.hidden = false;
    }
    if (this.lesson === lesson && this.at === at) this.point(this.places[step.point]);
  }

  load(name) {
    if (!this.loaded.has(name)) {
      const answer = fetch(`${this.recordings}${encodeURIComponent(name)}.json`).then((found) => found.json());
      this.loaded.set(name, answer);
      answer.catch(() => this.loaded.delete(name)); // another try may find it
    }
    return this.loaded.get(name);
  }

  async stage({ recording, frame }) {
    const wanted = [this.lesson, this.at];
    const [stage, run] = await Promise.all([found(() => window.leakscope), this.load(recording)]);
    if (wanted[0] !== this.lesson || wanted[1] !== this.at) return; // the person is further already
    stage.present(run, frame);
  }

  // A term's meaning, under the text; clicked again it goes.
  explain(term, node = null) {
    const again = node?.getAttribute("aria-expanded") === "true";
    for (const other of this.text.querySelectorAll(".ls-term")) other.setAttribute("aria-expanded", "false");
    this.meaning.hidden = !term || again;
    if (this.meaning.hidden) return;
    node.setAttribute("aria-expanded", "true");
    this.meaning.replaceChildren(html("b", {}, term), `: ${this.glossary[term]}`);
  }

  async point(selector) {
    document.querySelector(".ls-pointed")?.classList.remove("ls-pointed");
    this.pointing = selector;
    if (!selector) return;
    const node = await found(() => [...document.querySelectorAll(selector)].find((part) => part.offsetParent)).catch(
      () => null,
    );
    if (!node || this.pointing !== selector) return;
    node.classList.add("ls-pointed");
    for (const wait of SETTLING) {
      await pause(wait);
      if (this.pointing === selector) this.reveal(node);
    }
  }

  // Scrolls only as far as it has to, and never under the panel.
  reveal(node) {
    const part = node.getBoundingClientRect(),
      own = this.root.getBoundingClientRect(),
      room = 16;
    const below = part.left < own.right && part.right > own.left; // in the panel's column
    const docked = getComputedStyle(this.root).position === "fixed"; // at the foot of a phone's screen
    const top = below && !docked ? Math.max(own.height, 0) + 2 * room : room,
      bottom = docked ? own.top - room : innerHeight - room;
    if (part.top >= top && part.bottom <= bottom) return;
    const by = part.height > bottom - top || part.top < top ? part.top - top : part.bottom - bottom;
    window.scrollBy({ top: by, behavior: calm.matches ? "auto" : "smooth" });
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") this.leave();
    else if (KEYS[event.key]) this.move(KEYS[event.key]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
