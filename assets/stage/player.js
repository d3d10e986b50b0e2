/* Playback: which frame is on show, during a run, after it, and of recordings. */
import { build, clamp, html, svg } from "./dom.js";

const MAX_FRAMES = 5000;
const SPEEDS = [0.25, 0.5, 1, 2, 4];
const LONGEST_OPENING = 100; // for the first frames, in which an attack gets ready
const LONGEST_WAIT = 500; // milliseconds: a run keeps its pace, but nobody waits for what it thought about

const ICONS = {
  first: "M3 3h2v10H3zM13 3v10L6 8z",
  back: "M10.3 2.6 11.7 4 7.7 8l4 4-1.4 1.4L4.9 8z",
  play: "M4 2.5v11L13.5 8z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  on: "M5.7 2.6 4.3 4l4 4-4 4 1.4 1.4L11.1 8z",
  last: "M11 3h2v10h-2zM3 3v10l7-5z",
};

/* Keeps the frames and decides which one is on show: following the run, playing at its pace, or standing still. */
export class Player {
  constructor(changed, touched, finished) {
    Object.assign(this, {
      changed,
      touched,
      finished,
      frames: [],
      shown: -1,
      running: false,
      following: false,
      playing: false,
      speed: 1,
      timer: null,
    });
    const icon = (path) => svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: path }));
    const button = (label, path, act) => {
      const node = html(
        "button",
        { type: "button", class: "ls-button", "aria-label": label, title: label },
        icon(path),
      );
      node.addEventListener("click", act);
      return node;
    };
    this.toggle = button("Play", ICONS.play, () => this.playPause());
    this.slider = html("input", {
      type: "range",
      class: "ls-slider",
      min: 0,
      max: 0,
      value: 0,
      "aria-label": "Frame of the run",
    });
    this.slider.addEventListener("input", () => this.seek(Number(this.slider.value)));
    this.count = html("span", { class: "ls-count" });
    this.live = html("button", { type: "button", class: "ls-live" }, "live");
    this.live.addEventListener("click", () => this.seek(Infinity));
    this.pace = html(
      "select",
      { class: "ls-pace", "aria-label": "Speed" },
      ...SPEEDS.map((speed) => html("option", { value: speed }, `${speed}×`)),
    );
    this.pace.value = "1";
    this.pace.addEventListener("change", () => this.hasten(Number(this.pace.value)));
    this.node = html(
      "div",
      { class: "ls-player", role: "group", "aria-label": "Playback" },
      html(
        "span",
        { class: "ls-buttons" },
        button("First frame", ICONS.first, () => this.seek(0)),
        button("One frame back", ICONS.back, () => this.seek(this.shown - 1)),
        this.toggle,
        button("One frame on", ICONS.on, () => this.seek(this.shown + 1)),
        button("Last frame", ICONS.last, () => this.seek(Infinity)),
      ),
      this.slider,
      this.count,
      this.live,
      this.pace,
    );
  }

  get last() {
    return this.frames.length - 1;
  }

  begin(running) {
    this.halt();
    Object.assign(this, { frames: [], shown: -1, running, following: true });
  }

  add(frame) {
    if (frame.n <= this.frames.at(-1)?.n) return;
    this.frames.push(frame);
    if (this.frames.length > MAX_FRAMES) this.thin();
    if (this.following) this.shown = this.last;
  }

  // A run of hours keeps its shape: every second frame of the older half goes.
  thin() {
    const half = this.frames.length >> 1,
      before = this.frames.length;
    this.frames = this.frames.filter((_, i) => i >= half || i % 2 === 0);
    this.shown = this.shown < half ? this.shown >> 1 : this.shown - (before - this.frames.length);
  }

  seek(index) {
    this.touched();
    this.halt();
    this.shown = clamp(index, Math.min(0, this.last), this.last);
    this.following = this.running && this.shown === this.last;
    this.changed();
  }

  playPause() {
    this.touched();
    if (this.playing || (this.following && this.running)) {
      this.halt();
      this.following = false;
    } else this.play();
    this.changed();
  }

  play() {
    if (this.last < 0) return;
    if (this.shown >= this.last && !this.running) this.shown = 0;
    this.playing = true;
    this.due = performance.now() + this.wait();
    this.tick();
  }

  halt() {
    clearTimeout(this.timer);
    this.playing = false;
  }

  setSpeed(speed) {
    if (!SPEEDS.includes(speed)) return;
    this.pace.value = speed;
    this.hasten(speed);
  }

  hasten(speed) {
    this.speed = speed;
    if (!this.playing) return;
    this.halt();
    this.play();
  }

  wait() {
    const now = this.frames[this.shown],
      next = this.frames[this.shown + 1];
    const longest = this.shown < 2 ? LONGEST_OPENING : LONGEST_WAIT;
    return next ? clamp((1000 * (next.seconds - now.seconds)) / this.speed, 0, longest) : 0;
  }

  // Frames that fell due while the page was drawing are passed over: the replay keeps the run's pace.
  tick() {
    const now = performance.now();
    this.due = Math.max(this.due, now - LONGEST_WAIT);
    while (this.due <= now && this.shown < this.last) {
      this.shown += 1;
      this.due += this.wait();
    }
    if (this.shown < this.last) this.timer = setTimeout(() => this.tick(), this.due - now);
    else this.arrive();
    this.changed();
  }

  arrive() {
    this.playing = false;
    this.following = this.running;
    if (!this.running) this.finished();
  }

  draw() {
    const frame = this.frames[this.shown],
      going = this.playing || (this.running && this.following);
    const where = frame ? `frame ${this.shown + 1} of ${this.frames.length}` : "no frames yet";
    this.slider.max = Math.max(this.last, 0);
    this.slider.value = Math.max(this.shown, 0);
    this.slider.setAttribute("aria-valuetext", frame ? `${where}, ${frame.seconds.toFixed(1)} s` : where);
    this.count.textContent = where;
    this.live.classList.toggle("ls-off", !this.running);
    this.live.setAttribute("aria-pressed", this.following);
    const label = going ? "Pause" : "Play";
    if (this.toggle.title === label) return;
    build(this.toggle, { title: label, "aria-label": label });
    this.toggle.querySelector("path").setAttribute("d", going ? ICONS.pause : ICONS.play);
  }
}
