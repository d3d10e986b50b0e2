/* The stage: the attacker's side of the wall. It keeps the frames of one run and draws any of them: token tiles, a status
   line, the map of word embeddings (Plotly), curves and, for the span attack, the strip of candidate words.
   Words come from people: they reach the page through textContent, and Plotly through plain() only. */
(() => {
  "use strict";

  const MARKS = {
    "=": { symbol: "✓", words: "in place", colour: "--ls-right", shape: "circle" },
    "~": { symbol: "↔", words: "right word in the wrong place", colour: "--ls-moved", shape: "diamond" },
    x: { symbol: "✗", words: "wrong", colour: "--ls-wrong", shape: "x" },
  };
  const MAX_FRAMES = 5000;
  const LONGEST_WORD = 18;
  const MARGIN = { l: 30, r: 8, t: 8, b: 32 }; // around the flat map, in pixels
  const TRAIL = 12;
  const CURVE_POINTS = 240;
  const SPEEDS = [0.25, 0.5, 1, 2, 4];
  const LONGEST_WAIT = 1500;
  const REST_ON_LAST = 4000;
  const ANNOUNCE_EVERY = 2000;

  const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const markOf = (frame, place) => MARKS[frame.marks?.[place]] ?? MARKS.x;
  const inPlace = (frame) => [...(frame.marks ?? "")].filter((mark) => mark === "=").length;

  // Plotly reads <b>, <a href=…> and entities in labels: the text is made plain first.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;");
  // Its letters in space know <b> but no entities: a look-alike stands in.
  const plainInSpace = (text) => String(text).replace(/</g, "‹");
  const short = (word) => (word.length > LONGEST_WORD ? `${word.slice(0, LONGEST_WORD - 1)}…` : word);

  function build(node, attributes, children = []) {
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }
  const html = (tag, attributes = {}, ...children) => build(document.createElement(tag), attributes, children);
  const svg = (tag, attributes = {}, ...children) =>
    build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  let ids = 0;
  const uniqueId = () => `ls-${++ids}`;

  const nextPaint = () => new Promise(requestAnimationFrame);
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

  const superscript = (power) => String(power).replace(/./g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));
  function readable(value) {
    if (!Number.isFinite(value)) return "–";
    if (value === 0 || (Math.abs(value) >= 0.001 && Math.abs(value) < 10000)) return String(Number(value.toPrecision(3)));
    const [digits, power] = value.toExponential(1).split("e");
    return `${digits}·10${superscript(Number(power))}`;
  }

  let plotly = null; // one script for all stages of the page
  function loadPlotly(url) {
    plotly ??= new Promise((resolve, reject) => {
      if (window.Plotly) return resolve();
      const script = html("script", { src: url });
      script.onload = resolve;
      script.onerror = () => reject(new Error("plotly.js could not be loaded"));
      document.head.append(script);
    });
    return plotly;
  }

  /* One tile per token; nodes are reused from frame to frame and run to run. */
  class Tiles {
    constructor() {
      this.tiles = [];
      this.truth = [];
      this.comparing = false;
      this.tipped = null;
      this.list = html("div", { class: "ls-tiles", role: "list", "aria-label": "The attacker's guess, token by token" });
      this.tip = html("div", { class: "ls-tip", "aria-hidden": "true", hidden: "" });
      this.node = html("div", { class: "ls-tilebox" }, this.list, this.tip);
      for (const kind of ["pointerover", "focusin"]) this.list.addEventListener(kind, (event) => this.point(event.target));
      for (const kind of ["pointerleave", "focusout"]) this.list.addEventListener(kind, () => this.point(null));
      this.node.addEventListener("keydown", (event) => event.key === "Escape" && this.point(null));
    }

    begin(truth) {
      this.truth = truth;
      this.point(null);
      for (const [place, tile] of this.tiles.entries()) this.reserve(tile, truth[place], true);
    }

    clear() {
      const height = this.list.offsetHeight;
      this.list.style.minHeight = height ? `${height}px` : ""; // the next run finds its room
      this.begin([]);
      this.resize(0);
    }

    compare(on) {
      this.comparing = on;
      this.list.classList.toggle("ls-comparing", on);
    }

    draw(frame) {
      this.list.style.minHeight = "";
      this.resize(Math.max(frame.tokens.length, this.comparing ? this.truth.length : 0));
      this.tiles.forEach((tile, place) => this.drawTile(tile, place, frame));
      if (this.tipped) this.fillTip(this.tipped);
    }

    drawTile(tile, place, frame) {
      const word = frame.tokens[place];
      const guessed = word !== undefined;
      const mark = markOf(frame, place);
      const sure = frame.sure?.[place] ?? 0;
      const others = (frame.others?.[place] ?? "").split(" ").filter(Boolean);
      const became = guessed && mark.symbol === "✓" && tile.symbol.textContent !== "✓" && tile.symbol.textContent !== "";
      tile.word.textContent = guessed ? word : "–";
      tile.symbol.textContent = guessed ? mark.symbol : "";
      tile.truth.textContent = this.truth[place] ?? "";
      tile.bar.style.transform = `scaleX(${guessed ? sure / 100 : 0})`;
      tile.node.dataset.mark = guessed ? frame.marks?.[place] ?? "x" : "";
      tile.hint = guessed ? `${sure} % sure${others.length ? `\nelse ${others.join(", ")}` : ""}` : "";
      const said = guessed ? `${word}, ${mark.words}, ${tile.hint.replace("\n", ", ")}` : "nothing guessed";
      tile.node.setAttribute("aria-label", `token ${place + 1}: ${said}`);
      this.reserve(tile, word);
      if (became && !calm.matches) {
        tile.node.animate([{ transform: "rotateX(80deg) scale(1.12)" }, { transform: "none" }], { duration: 380, easing: "ease-out" });
      }
    }

    // Widths only grow within a run, so that the line does not break differently in each frame.
    reserve(tile, word = "", anew = false) {
      const width = clamp(Math.max([...word].length, anew ? 3 : tile.width), 3, LONGEST_WORD);
      if (width === tile.width) return;
      tile.width = width;
      tile.node.style.setProperty("--ls-chars", width);
    }

    resize(count) {
      while (this.tiles.length > count) this.tiles.pop().node.remove();
      while (this.tiles.length < count) {
        const tile = { width: 0, hint: "" };
        tile.word = html("span", { class: "ls-word" });
        tile.symbol = html("span", { class: "ls-symbol" });
        tile.bar = html("span", { class: "ls-bar" });
        tile.truth = html("span", { class: "ls-truth" });
        tile.node = html("div", { class: "ls-tile", role: "listitem", tabindex: "0" },
          html("span", { class: "ls-guess" }, tile.word, tile.symbol), html("span", { class: "ls-sure" }, tile.bar), tile.truth);
        this.reserve(tile, this.truth[this.tiles.length]);
        this.tiles.push(tile);
        this.list.append(tile.node);
      }
    }

    point(target) {
      const node = target?.closest(".ls-tile");
      this.tipped = (node && this.tiles.find((tile) => tile.node === node)) || null;
      this.tip.hidden = !this.tipped?.hint;
      if (!this.tip.hidden) this.fillTip(this.tipped);
    }

    fillTip(tile) {
      this.tip.textContent = tile.hint;
      this.tip.style.top = `${tile.node.offsetTop + tile.node.offsetHeight + 4}px`;
      this.tip.style.left = `${clamp(tile.node.offsetLeft, 0, Math.max(0, this.node.clientWidth - this.tip.offsetWidth))}px`;
    }
  }

  /* Speaks to screen readers, at most once in two seconds, always the latest. */
  class Announcer {
    constructor() {
      this.node = html("div", { class: "ls-unseen", "aria-live": "polite" });
      this.last = 0;
      this.timer = null;
    }

    say(text) {
      this.text = text;
      this.timer ??= setTimeout(() => {
        this.timer = null;
        this.last = performance.now();
        if (this.node.textContent !== this.text) this.node.textContent = this.text;
      }, Math.max(0, this.last + ANNOUNCE_EVERY - performance.now()));
    }
  }

  /* An SVG that is as many units wide as it has pixels, so that its type keeps its size. */
  class Picture {
    constructor(name) {
      this.title = html("div", { class: "ls-caption" });
      this.svg = svg("svg", { class: "ls-svg", role: "img" });
      this.node = html("div", { class: `ls-picture ${name}` }, this.title, this.svg);
      new ResizeObserver(() => this.measure()).observe(this.svg);
    }

    measure() {
      const { width, height } = this.svg.getBoundingClientRect();
      if (!width) return;
      Object.assign(this, { width, height, em: parseFloat(getComputedStyle(this.svg).fontSize) });
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.redraw?.();
    }
  }

  /* Lines over the seconds of the run: strong up to the frame on show, faint after it. */
  class Chart extends Picture {
    constructor(series, { log = false, unit = "", room }) {
      super("ls-chart");
      Object.assign(this, { log, unit, room });
      this.grid = [0, 1, 2].map(() => ({ line: svg("line", { class: "ls-grid" }), text: svg("text", { class: "ls-tick", "text-anchor": "end" }) }));
      this.times = ["start", "end"].map((anchor) => svg("text", { class: "ls-tick", "text-anchor": anchor }));
      this.cursor = svg("line", { class: "ls-cursor" });
      this.lines = series.map(({ key, name, colour }) => ({
        key, name,
        whole: svg("path", { class: "ls-line ls-rest", style: `stroke: var(${colour})` }),
        past: svg("path", { class: "ls-line", style: `stroke: var(${colour})` }),
        dot: svg("circle", { r: 3.5, style: `fill: var(${colour})` }),
        label: svg("text", { class: "ls-label", style: `fill: var(${colour})` }),
      }));
      this.svg.append(...this.grid.flatMap(({ line, text }) => [line, text]), ...this.times, this.cursor,
        ...this.lines.flatMap(({ whole, past, dot, label }) => [whole, past, dot, label]));
    }

    draw(frames, shown) {
      this.redraw = () => this.draw(frames, shown);
      if (!this.width || !frames[shown]) return;
      const sample = this.sample(frames, shown);
      const end = this.niceEnd(frames.at(-1).seconds);
      const [low, high, ticks] = this.log ? this.decades(sample, frames) : [0, 100, [0, 50, 100]];
      const left = 2.9 * this.em, right = this.width - this.room * this.em, top = 0.7 * this.em, bottom = this.height - 1.5 * this.em;
      const scaled = (value) => (this.log ? Math.log10(Math.max(value ?? 0, 10 ** low)) : value ?? 0);
      const x = (frame) => left + (frame.seconds / end) * (right - left);
      const y = (value) => bottom - ((scaled(value) - low) / (high - low)) * (bottom - top);
      this.drawGrid(ticks, (tick) => y(this.log ? 10 ** tick : tick), left, right, bottom, end);
      const now = frames[shown], at = x(now);
      build(this.cursor, { x1: at, x2: at, y1: top, y2: bottom });
      let taken = -Infinity;
      for (const line of [...this.lines].sort((a, b) => now[b.key] - now[a.key])) {
        const path = (indices) => indices.map((i, k) => `${k ? "L" : "M"}${x(frames[i]).toFixed(1)} ${y(frames[i][line.key]).toFixed(1)}`).join("");
        const height = y(now[line.key]);
        line.whole.setAttribute("d", path(sample));
        line.past.setAttribute("d", path(sample.filter((i) => i <= shown)));
        build(line.dot, { cx: at, cy: height });
        taken = Math.max(height + 0.35 * this.em, taken + 1.15 * this.em); // labels do not lie on each other
        build(line.label, { x: at + 0.6 * this.em, y: Math.min(taken, this.height - 0.2 * this.em) });
        line.label.textContent = `${line.name} ${readable(now[line.key])}${this.unit}`.trim();
      }
      const values = this.lines.map((line) => `${line.name} ${readable(now[line.key])}${this.unit}`);
      this.svg.setAttribute("aria-label", `${this.title.textContent} at ${now.seconds} s: ${values.join(", ")}`);
    }

    drawGrid(ticks, y, left, right, bottom, end) {
      this.grid.forEach(({ line, text }, k) => {
        const at = y(ticks[k]);
        build(line, { x1: left, x2: right, y1: at, y2: at });
        build(text, { x: left - 0.4 * this.em, y: at + 0.35 * this.em });
        text.textContent = this.log ? `10${superscript(ticks[k])}` : ticks[k];
      });
      this.times.forEach((text, k) => build(text, { x: k ? right : left, y: bottom + 1.25 * this.em }));
      this.times[0].textContent = "0";
      this.times[1].textContent = `${end} s`;
    }

    sample(frames, shown) {
      const stride = Math.ceil(frames.length / CURVE_POINTS);
      return [...frames.keys()].filter((i) => i % stride === 0 || i === shown || i === frames.length - 1);
    }

    // A round end of the time axis, so that it moves seldom while a run grows.
    niceEnd(seconds) {
      const decade = 10 ** Math.floor(Math.log10(Math.max(seconds, 0.1)));
      return Number((decade * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * decade >= seconds - 1e-9)).toPrecision(2)) || 1;
    }

    decades(sample, frames) {
      const powers = sample.map((i) => Math.log10(frames[i][this.lines[0].key])).filter(Number.isFinite);
      const high = powers.length ? Math.ceil(Math.max(...powers)) : 0;
      let low = Math.min(powers.length ? Math.floor(Math.min(...powers)) : -2, high - 2);
      if ((high - low) % 2) low -= 1; // a whole decade in the middle
      return [low, high, [low, (low + high) / 2, high]];
    }
  }

  /* The span attack's picture: the right word lies in the leaked span, the crowd does not. */
  class Strip extends Picture {
    constructor() {
      super("ls-strip");
      this.ticks = [-7, -5, -3, -1, 0].map((power) => (
        { power, line: svg("line", { class: "ls-grid" }), text: svg("text", { class: "ls-tick", "text-anchor": "middle" }) }));
      this.labels = ["ls-nearest", "ls-second"].map((name) => svg("text", { class: `ls-label ${name}` }));
      this.dots = Array.from({ length: 24 }, () => svg("circle", {}, svg("title")));
      for (const { power, text } of this.ticks) text.textContent = power ? `10${superscript(power)}` : "1";
      this.svg.append(...this.ticks.flatMap(({ line, text }) => [line, text]), ...this.dots, ...this.labels);
    }

    draw({ place, words, distances }) {
      this.redraw = () => this.draw({ place, words, distances });
      this.title.textContent = `How far each word is from the leaked span (place ${place})`;
      if (!this.width) return;
      const { em } = this, bottom = this.height - 1.5 * em, middle = 0.62 * bottom;
      const x = (distance) => 2 * em + ((Math.log10(clamp(distance, 1e-7, 1)) + 7) / 7) * (this.width - 4 * em);
      for (const { power, line, text } of this.ticks) {
        build(line, { x1: x(10 ** power), x2: x(10 ** power), y1: 1.6 * em, y2: bottom });
        build(text, { x: x(10 ** power), y: bottom + 1.2 * em });
      }
      const order = [...words.keys()].sort((a, b) => distances[a] - distances[b]).slice(0, this.dots.length);
      this.dots.forEach((dot, rank) => {
        const i = order[rank];
        dot.style.display = i === undefined ? "none" : "";
        if (i === undefined) return;
        const lift = rank ? (((rank * 7) % 9) - 4) * 0.32 * em : 0; // a fixed scatter keeps the crowd's dots apart
        build(dot, { cx: x(distances[i]), cy: middle + lift, r: rank ? 4 : 6, class: rank ? "ls-crowd" : "ls-nearest" });
        dot.firstChild.textContent = `${words[i]}: ${readable(distances[i])}`;
      });
      this.labels.forEach((label, rank) => {
        const i = order[rank];
        label.textContent = i === undefined ? "" : `${words[i]} ${readable(distances[i])}`;
        if (i === undefined) return;
        const at = x(distances[i]);
        const anchor = at > this.width / 2 ? "end" : "start";
        build(label, { x: clamp(at, em, this.width - em), y: rank ? 1.1 * em : middle - 0.9 * em, "text-anchor": anchor });
      });
      const [first, second] = order.map((i) => `${words[i]} at ${readable(distances[i])}`);
      this.svg.setAttribute("aria-label", `${this.title.textContent}: nearest ${first}${second ? `, next ${second}` : ""}`);
    }
  }

  /* The map of word embeddings in two or three dimensions. Plotly keeps one div; a frame only moves points in it, so camera
     and zoom stay the person's. Only the latest wish is drawn, and after a slow drawing the page gets time for the rest. */
  class Projection {
    constructor(dimensions, drawn) {
      Object.assign(this, { dimensions, drawn, axes: ["x", "y", "z"].slice(0, dimensions), wish: null, busy: false, fresh: true });
      this.host = html("div", { class: "ls-plot", "data-note": "The map of words is on its way…" });
      new ResizeObserver(() => this.resized()).observe(this.host);
    }

    begin(start, first) {
      const points = [...(start?.truth_points ?? []), ...(start?.background ?? []).map((word) => word.slice(1)), ...first];
      this.start = start;
      this.whole = true;
      this.home = this.axes.map((_, axis) => spread(points.map((point) => point[axis])));
      this.fresh = true;
    }

    show(frame, trail) {
      this.wish = { frame, trail };
      this.pump();
    }

    async pump() {
      if (this.busy || !this.wish || !window.Plotly || !this.host.clientWidth) return;
      this.busy = true;
      await nextPaint();
      const { frame, trail } = this.wish;
      this.wish = null;
      const began = performance.now();
      try {
        await this.draw(frame, trail);
        await nextPaint(); // WebGL paints after Plotly's promise
        const cost = performance.now() - began;
        this.drawn(cost);
        await pause(cost / 2);
      } finally {
        this.busy = false;
      }
      this.pump();
    }

    async draw(frame, trail) {
      const moving = this.moving(frame, trail);
      if (this.fresh) {
        this.fresh = false;
        const first = !this.host.childElementCount;
        await Plotly.react(this.host, this.traces(moving), this.layout(), this.config());
        this.whole = false;
        if (first) this.host.on("plotly_doubleclick", () => this.goHome());
        return;
      }
      await this.grow(frame.points ?? []);
      const update = Object.fromEntries(this.axes.map((axis) => [axis, moving.map((trace) => trace[axis])]));
      const guesses = moving[2];
      update.hovertext = [undefined, undefined, guesses.hovertext];
      update["marker.color"] = [undefined, undefined, guesses.marker.color];
      update["marker.symbol"] = [undefined, undefined, guesses.marker.symbol];
      await Plotly.restyle(this.host, update, [1, 2, 4]);
    }

    // What a frame moves: the trails, the links from guess to truth, the guesses.
    moving(frame, trail) {
      const points = frame.points ?? [], truth = this.start?.truth_points ?? [];
      const trails = points.flatMap((_, place) => [...trail.map((past) => past.points?.[place] ?? []), []]);
      const links = points.flatMap((point, place) => (truth[place] ? [point, truth[place], []] : []));
      return [this.coordinates(trails), this.coordinates(links), {
        ...this.coordinates(points),
        hovertext: frame.tokens.map((word, place) => plain(`guess ${place + 1}: ${word}`)),
        marker: {
          color: points.map((_, place) => this.colour(markOf(frame, place).colour)),
          symbol: points.map((_, place) => this.shape(markOf(frame, place))),
        },
      }];
    }

    // WebGL would draw x as an emoji, which not every machine has.
    shape({ shape }) {
      return shape === "x" && this.dimensions === 3 ? "cross" : shape;
    }

    coordinates(points) {
      return Object.fromEntries(this.axes.map((name, axis) => [name, points.map((point) => point[axis] ?? null)]));
    }

    traces([trails, links, guesses]) {
      const flat = this.dimensions === 2;
      const type = flat ? "scatter" : "scatter3d";
      const { background = [], truth = [], truth_points: places = [] } = this.start ?? {};
      const [faint, muted, accent, ink, ground] = ["--ls-faint", "--ls-muted", "--ls-accent", "--ls-fg", "--ls-bg"].map((name) => this.colour(name));
      // A word that stands twice in the sentence is one point: it is named once.
      const named = (i) => truth.slice(0, i).some((word, k) => word === truth[i] && String(places[k]) === String(places[i]));
      const names = truth.map((word, i) => (named(i) ? "" : short(word)));
      const line = (trace, colour, opacity, style) => ({ ...trace, type, mode: "lines", hoverinfo: "skip", opacity, line: { color: colour, ...style } });
      return [
        { ...this.coordinates(background.map((word) => word.slice(1))), type, mode: "markers", hoverinfo: "text",
          hovertext: background.map(([word]) => plain(word)), marker: { color: faint, size: flat ? 5 : 2.5 } },
        line(trails, accent, 0.4, { width: flat ? 1.5 : 2 }),
        line(links, muted, 0.8, flat ? { width: 1, dash: "dot" } : { width: 1.5 }),
        { ...this.coordinates(places), type, mode: "markers+text", hoverinfo: "text", hovertext: truth.map((word) => plain(`true: ${word}`)),
          text: names.map(flat ? plain : plainInSpace), textfont: { color: ink, size: this.type() },
          textposition: flat ? this.labelSides(places, names) : "top center",
          marker: { symbol: "circle-open", color: ink, size: flat ? 16 : 11, line: { width: flat ? 1.5 : 1, color: ink } } },
        { ...guesses, type, mode: "markers", hoverinfo: "text",
          marker: { ...guesses.marker, size: flat ? 9 : 6, opacity: 1, line: { width: flat ? 1 : 0, color: ground } } },
      ];
    }

    labelSides(places, names) {
      const width = this.host.clientWidth - MARGIN.l - MARGIN.r, height = this.host.clientHeight - MARGIN.t - MARGIN.b;
      const [[left, right], [low, high]] = this.home;
      const spots = places.map(([x, y]) => [(width * (x - left)) / (right - left), (height * (high - y)) / (high - low)]);
      return sides(spots, names, this.type(), width, height);
    }

    layout() {
      const [ink, muted, line, ground] = ["--ls-fg", "--ls-muted", "--ls-line", "--ls-bg"].map((name) => this.colour(name));
      const axis = (k) => ({
        range: this.range(k), title: { text: this.axisTitle(k), font: { color: muted, size: this.type() }, standoff: 6 },
        showticklabels: false, ticks: "", nticks: 6, gridcolor: line, zeroline: false, linecolor: line, showspikes: false,
      });
      const common = {
        font: { family: getComputedStyle(this.host).fontFamily, color: ink, size: this.type() }, showlegend: false, hovermode: "closest",
        paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
        hoverlabel: { bgcolor: ground, bordercolor: muted, font: { color: ink, size: this.type() } },
      };
      // A finger on the flat map scrolls the page; a mouse zooms.
      if (this.dimensions === 2) {
        const touch = window.matchMedia("(pointer: coarse)").matches;
        return { ...common, margin: MARGIN, xaxis: axis(0), yaxis: axis(1), dragmode: touch ? false : "zoom" };
      }
      const back = this.host.clientWidth < 500 ? 1.25 : 1;
      const scene = { xaxis: axis(0), yaxis: axis(1), zaxis: axis(2), aspectmode: "manual", aspectratio: { x: 1.3, y: 1.3, z: 0.85 }, dragmode: "orbit", uirevision: "the person's",
        camera: { eye: { x: 1.3 * back, y: 1.3 * back, z: 0.75 * back }, center: { x: 0, y: 0, z: -0.14 } } };
      return { ...common, margin: { l: 0, r: 0, t: 0, b: 0 }, scene };
    }

    config() {
      const home = { name: "home", title: "Back to the whole map", icon: Plotly.Icons.home, click: () => this.goHome() };
      const buttons = this.dimensions === 2 ? ["zoomIn2d", "zoomOut2d", home] : ["resetCameraDefault3d"];
      return { displaylogo: false, doubleClick: false, scrollZoom: this.dimensions === 3, modeBarButtons: [["toImage", ...buttons]] };
    }

    axisTitle(axis) {
      const share = this.start?.variance?.[axis];
      if (share === undefined) return `PC ${axis + 1}`;
      return this.dimensions === 2 ? `PC ${axis + 1} (${share} % of the variance)` : `PC ${axis + 1} (${share} %)`;
    }

    // A run is first seen whole; when only the colours change, the person's zoom stays.
    range(axis) {
      const seen = this.whole || this.dimensions === 3 ? this.home[axis] : this.host.layout[`${this.axes[axis]}axis`].range;
      return [...seen];
    }

    ranges() {
      const prefix = this.dimensions === 3 ? "scene." : "";
      return Object.fromEntries(this.axes.map((axis, k) => [`${prefix}${axis}axis.range`, [...this.home[k]]]));
    }

    goHome() {
      if (this.dimensions === 2) Plotly.relayout(this.host, this.ranges());
    }

    // The axes stay as they are unless points leave by far, and never move under a person who zoomed.
    async grow(points) {
      const far = ([low, high], value) => value < low - 0.1 * (high - low) || value > high + 0.1 * (high - low);
      const zoomed = this.dimensions === 2 && this.axes.some((axis, k) => String(this.host.layout[`${axis}axis`].range) !== String(this.home[k]));
      if (zoomed || !points.some((point) => this.home.some((range, k) => far(range, point[k])))) return;
      this.home = this.home.map((range, k) => spread([...range, ...points.map((point) => point[k])]));
      await Plotly.relayout(this.host, this.ranges());
    }

    resized() {
      if (this.host.clientWidth && this.host.childElementCount) Plotly.Plots.resize(this.host);
      this.pump();
    }

    colour(name) {
      return getComputedStyle(this.host).getPropertyValue(name).trim();
    }

    type() {
      return Math.round(0.85 * parseFloat(getComputedStyle(this.host).fontSize));
    }
  }

  function spread(values) {
    if (!values.length) return [-1000, 1000];
    const low = Math.min(...values), high = Math.max(...values), room = 0.12 * (high - low) || 100;
    return [low - room, high + room];
  }

  // The side of each point on which its label covers the fewest points and labels, all in pixels.
  function sides(spots, words, type, width, height) {
    const taken = spots.map(([x, y]) => [x - 9, y - 9, x + 9, y + 9]);
    return spots.map(([x, y], i) => {
      const long = 0.6 * type * words[i].length, tall = 1.2 * type;
      const boxes = {
        "top center": [x - long / 2, y - 10 - tall], "middle right": [x + 10, y - tall / 2],
        "middle left": [x - 10 - long, y - tall / 2], "bottom center": [x - long / 2, y + 10],
      };
      const choices = Object.entries(boxes).map(([side, [left, top]]) => {
        const box = [left, top, left + long, top + tall];
        const out = left < 0 || top < 0 || box[2] > width || box[3] > height;
        return { side, box, cost: taken.filter((other) => overlap(box, other)).length + (out ? 3 : 0) };
      });
      const best = choices.reduce((one, other) => (other.cost < one.cost ? other : one));
      if (words[i]) taken.push(best.box);
      return best.side;
    });
  }
  const overlap = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

  /* Keeps the frames and decides which one is on show: following the run, playing at its pace, or standing still. */
  class Player {
    constructor(changed, touched, finished) {
      Object.assign(this, { changed, touched, finished, frames: [], shown: -1, running: false, following: false, playing: false, speed: 1, timer: null });
      const icon = (path) => svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: path }));
      const button = (label, path, act) => {
        const node = html("button", { type: "button", class: "ls-button", "aria-label": label, title: label }, icon(path));
        node.addEventListener("click", act);
        return node;
      };
      this.toggle = button("Play", ICONS.play, () => this.playPause());
      this.slider = html("input", { type: "range", class: "ls-slider", min: 0, max: 0, value: 0, "aria-label": "Frame of the run" });
      this.slider.addEventListener("input", () => this.seek(Number(this.slider.value)));
      this.count = html("span", { class: "ls-count" });
      this.live = html("button", { type: "button", class: "ls-live" }, "live");
      this.live.addEventListener("click", () => this.seek(Infinity));
      this.pace = html("select", { class: "ls-pace", "aria-label": "Speed" }, ...SPEEDS.map((speed) => html("option", { value: speed }, `${speed}×`)));
      this.pace.value = "1";
      this.pace.addEventListener("change", () => this.hasten(Number(this.pace.value)));
      this.node = html("div", { class: "ls-player", role: "group", "aria-label": "Playback" },
        html("span", { class: "ls-buttons" },
          button("First frame", ICONS.first, () => this.seek(0)),
          button("One frame back", ICONS.back, () => this.seek(this.shown - 1)),
          this.toggle,
          button("One frame on", ICONS.on, () => this.seek(this.shown + 1)),
          button("Last frame", ICONS.last, () => this.seek(Infinity))),
        this.slider, this.count, this.live, this.pace);
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
      const half = this.frames.length >> 1, before = this.frames.length;
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

    hasten(speed) {
      this.speed = speed;
      if (!this.playing) return;
      this.halt();
      this.play();
    }

    wait() {
      const now = this.frames[this.shown], next = this.frames[this.shown + 1];
      return next ? clamp((1000 * (next.seconds - now.seconds)) / this.speed, 0, LONGEST_WAIT) : 0;
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
      const frame = this.frames[this.shown], going = this.playing || (this.running && this.following);
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

  const ICONS = {
    first: "M3 3h2v10H3zM13 3v10L6 8z",
    back: "M10.3 2.6 11.7 4 7.7 8l4 4-1.4 1.4L4.9 8z",
    play: "M4 2.5v11L13.5 8z",
    pause: "M4 3h3v10H4zM9 3h3v10H9z",
    on: "M5.7 2.6 4.3 4l4 4-4 4 1.4 1.4L11.1 8z",
    last: "M11 3h2v10h-2zM3 3v10l7-5z",
  };

  class Stage {
    constructor(root, { plotly: url, recording } = {}) {
      this.root = root;
      this.player = new Player(() => this.paint(), () => this.endLoop(), () => this.rest());
      this.buildParts();
      this.begin(null, "empty");
      root.addEventListener("keydown", (event) => this.key(event));
      new MutationObserver(() => this.setTheme()).observe(document.body, { attributeFilter: ["class"] });
      if (recording) this.loadRecording(recording);
      // Plotly is large: the tiles move first.
      nextPaint().then(() => pause(50)).then(() => loadPlotly(url)).then(
        () => this.projection.pump(),
        (problem) => { for (const { host } of this.projections) host.dataset.note = `No map: ${problem.message}.`; },
      );
    }

    get frames() {
      return this.player.frames;
    }

    get shown() {
      return this.player.shown;
    }

    receive(message) {
      if (!message || message.run === this.closed) return;
      if (message.run !== this.run) this.begin(message.run, "running");
      if (message.start && !this.start) this.setStart(message.start);
      if (message.frame) this.add(message.frame);
      if (message.error) this.finish("error", { headline: message.error });
      else if (message.end) this.finish("done", message.end);
      this.paint();
    }

    waiting() {
      this.closed = this.run ?? this.closed; // what is still under way of that run is not shown
      this.begin(null, "waiting");
      this.paint();
    }

    stopped() {
      if (!["running", "waiting"].includes(this.root.dataset.state)) return;
      this.closed = this.run ?? this.closed;
      const last = this.frames.at(-1);
      const headline = last ? `Stopped at step ${last.step}: ${this.score(last)}.` : "Stopped before the first step.";
      this.finish("stopped", { headline });
      this.paint();
    }

    setTheme() {
      for (const projection of this.projections) projection.fresh = true; // Plotly takes its colours anew
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
      for (const message of messages) this.receive(message);
      if (!this.frames.length) return this.begin(null, "empty");
      this.root.dataset.state = "recorded";
      this.player.running = this.player.following = false;
      if (calm.matches) return this.paint();
      this.looping = true;
      this.player.play();
    }

    begin(run, state) {
      this.endLoop();
      Object.assign(this, { run, start: null, end: null, spans: false });
      Object.assign(this.root.dataset, { run: run ?? "", state });
      this.player.begin(state === "running" || state === "waiting");
      this.tiles.clear();
      for (const projection of this.projections) projection.begin(null, []);
    }

    setStart(start) {
      this.start = start;
      this.tiles.begin(start.truth ?? []);
      this.settle();
    }

    add(frame) {
      this.player.add(frame);
      this.spans ||= Boolean(frame.candidates);
      if (this.frames.length === 1) this.settle();
    }

    settle() {
      for (const projection of this.projections) projection.begin(this.start, this.frames[0]?.points ?? []);
    }

    finish(state, end) {
      this.end = end;
      this.root.dataset.state = state;
      this.player.running = this.player.following = false;
    }

    rest() {
      if (this.looping) this.restTimer = setTimeout(() => this.player.play(), REST_ON_LAST);
    }

    endLoop() {
      this.looping = false;
      clearTimeout(this.restTimer);
    }

    score(frame) {
      return `${inPlace(frame)} of ${this.start?.truth?.length ?? frame.tokens.length} tokens in place`;
    }

    paint() {
      if (this.painting) return;
      this.painting = true;
      requestAnimationFrame(() => {
        this.painting = false;
        this.draw();
      });
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
      this.drawCurves(frame);
      this.projection.show(frame, this.trail());
    }

    drawHead() {
      const { title = "", device = "", exposed = "", recorded = false } = this.start ?? {};
      this.title.textContent = title || "The attack";
      this.device.textContent = device;
      this.exposed.textContent = exposed && `sees ${exposed}`;
      this.recorded.hidden = !recorded;
    }

    statusOf(frame) {
      if (!frame) return CALM[this.root.dataset.state] ?? "";
      const parts = [`step ${frame.step}`, this.score(frame), `${frame.seconds.toFixed(1)} s`];
      if (frame.left > 0 && !(this.end && this.shown === this.player.last)) parts.push(`${frame.left} s left`);
      return parts.join(" · ") + (frame.stage ? ` — ${frame.stage}` : "");
    }

    drawVerdict() {
      // A recording keeps its end for its last frame.
      const end = this.start?.recorded && this.shown < this.player.last ? null : this.end;
      this.verdict.dataset.kind = end ? (end.certified ? "certified" : "plain") : "open";
      this.headline.textContent = end?.headline ?? (this.root.dataset.state === "empty" ? "" : "…");
      this.detail.textContent = end?.detail ?? "";
      return end ? `${end.headline} ${end.detail ?? ""}` : "";
    }

    drawCurves(frame) {
      this.strip.node.hidden = !this.spans;
      const withWords = this.spans && this.frames.findLast((past, i) => i <= this.shown && past.candidates);
      if (withWords) this.strip.draw(withWords.candidates);
      this.objective.title.textContent = "How far the guess is off (log scale)";
      this.found.title.textContent = "Found so far";
      this.objective.draw(this.frames, this.shown);
      this.found.draw(this.frames, this.shown);
    }

    // The way here: the last quarter of the run so far, in a dozen positions.
    trail() {
      const stride = Math.ceil((this.shown + 1) / (4 * TRAIL));
      const first = Math.max(0, Math.floor(this.shown / stride) - TRAIL + 1);
      const past = Array.from({ length: TRAIL }, (_, k) => this.frames[(first + k) * stride]).filter((frame, k) => (first + k) * stride < this.shown);
      return [...past, this.frames[this.shown]];
    }

    pick(dimensions) {
      this.projections.forEach((projection, k) => {
        const on = projection.dimensions === dimensions;
        this.panels[k].hidden = !on;
        build(this.tabs[k], { "aria-selected": on, tabindex: on ? 0 : -1 });
        if (on) this.projection = projection;
      });
      this.paint();
    }

    key(event) {
      const { key, target } = event;
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (target.closest("select, [role=tab]") || (key === " " && target.closest("button")) || (key !== " " && target.closest("input"))) return;
      const goal = { ArrowLeft: this.shown - 1, ArrowRight: this.shown + 1, Home: 0, End: Infinity }[key];
      if (key === " ") this.player.playPause();
      else if (goal !== undefined) this.player.seek(goal);
      else return;
      event.preventDefault();
    }

    buildParts() {
      this.root.classList.add("ls-stage");
      this.tiles = new Tiles();
      this.announcer = new Announcer();
      this.title = html("span", { class: "ls-title" });
      this.device = html("span", { class: "ls-badge" });
      this.recorded = html("span", { class: "ls-badge ls-recorded", hidden: "" }, "recorded run");
      this.exposed = html("span", { class: "ls-exposed" });
      this.status = html("div", { class: "ls-status" });
      this.headline = html("div", { class: "ls-headline" });
      this.detail = html("div", { class: "ls-detail" });
      this.verdict = html("div", { class: "ls-verdict" },
        html("span", { class: "ls-seal", "aria-hidden": "true" }, "✓"), html("div", {}, this.headline, this.detail));
      this.strip = new Strip();
      this.objective = new Chart([{ key: "objective", name: "", colour: "--ls-accent" }], { log: true, room: 5.5 });
      const scores = [{ key: "recover", name: "words", colour: "--ls-right-ink" }, { key: "rougeL", name: "ROUGE-L", colour: "--ls-blue" }];
      this.found = new Chart(scores, { unit: " %", room: 9.6 });
      this.root.replaceChildren(
        html("div", { class: "ls-head" }, this.title, this.device, this.recorded, this.exposed),
        this.buildTools(), this.tiles.node, this.status, this.announcer.node,
        html("div", { class: "ls-plots" }, this.buildMap(), html("div", { class: "ls-curves" }, this.strip.node, this.objective.node, this.found.node)),
        this.player.node, this.verdict,
      );
      this.pick(2);
    }

    buildTools() {
      const compare = html("button", { type: "button", class: "ls-button ls-compare", "aria-pressed": "false" }, "Compare with the truth");
      compare.addEventListener("click", () => {
        this.tiles.compare(!this.tiles.comparing);
        compare.setAttribute("aria-pressed", this.tiles.comparing);
        this.paint();
      });
      const key = Object.entries(MARKS).map(([mark, { symbol, words }]) =>
        html("span", { "data-mark": mark }, html("b", { class: "ls-symbol" }, symbol), ` ${words}`));
      return html("div", { class: "ls-tools" }, html("span", { class: "ls-key" }, ...key), compare);
    }

    buildMap() {
      this.projections = [2, 3].map((dimensions) => new Projection(dimensions, (cost) => {
        const count = `drawn${dimensions}d`;
        this.root.dataset[count] = Number(this.root.dataset[count] ?? 0) + 1;
        this.root.dataset.drawing = Math.round(cost);
      }));
      this.tabs = this.projections.map(({ dimensions }) =>
        html("button", { type: "button", role: "tab", id: uniqueId(), class: "ls-tab" }, `${dimensions}D`));
      this.panels = this.projections.map(({ host }, k) =>
        html("div", { role: "tabpanel", id: uniqueId(), class: "ls-panel", "aria-labelledby": this.tabs[k].id }, host));
      this.tabs.forEach((tab, k) => {
        tab.setAttribute("aria-controls", this.panels[k].id);
        tab.addEventListener("click", () => this.pick(this.projections[k].dimensions));
        tab.addEventListener("keydown", ({ key }) => {
          if (!["ArrowLeft", "ArrowRight", "Home", "End"].includes(key)) return;
          const next = key === "Home" ? 0 : key === "End" ? 1 : 1 - k;
          this.pick(this.projections[next].dimensions);
          this.tabs[next].focus();
        });
      });
      const legend = [["ls-of-truth", "○", "true word"], ["ls-of-right", "●", "guess in place"], ["ls-of-moved", "◆", "in the wrong place"],
        ["ls-of-wrong", "✖", "wrong"], ["ls-of-crowd", "•", "other words"]];
      return html("div", { class: "ls-map" },
        html("div", { class: "ls-caption" }, html("span", {}, "Word embeddings, projected (PCA)"),
          html("span", { class: "ls-tabs", role: "tablist", "aria-label": "Dimensions of the map" }, ...this.tabs)),
        ...this.panels,
        html("div", { class: "ls-legend" }, ...legend.map(([name, symbol, words]) => html("span", {}, html("b", { class: name }, symbol), ` ${words}`))));
    }
  }

  const CALM = {
    empty: "Type a sentence, choose what leaks and press Attack: what the gradient gives away appears here.",
    waiting: "Taking the client's training step…",
    error: "Nothing was attacked.",
    stopped: "Nothing was attacked.",
  };

  window.Leakscope = window.Leakscope || {};
  window.Leakscope.Stage = Stage;
})();
