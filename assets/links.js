/* Links: what is said of the one that was opened, and the copying of a new one. Texts come from people: they reach the
   page through textContent and values only. */
import { html } from "./stage/dom.js";

export class Links {
  constructor(root, onFollow) {
    this.onFollow = onFollow;
    this.list = html("ul", {});
    const close = html(
      "button",
      { type: "button", class: "ls-close", "aria-label": "Dismiss what is said of the link" },
      "✕",
    );
    close.addEventListener("click", () => (this.notices.hidden = true));
    this.notices = html(
      "div",
      { class: "ls-notices", hidden: "" },
      html("div", {}, html("b", {}, "This link was not followed to the letter"), this.list),
      close,
    );
    this.told = html("div", { class: "ls-told" });
    this.field = html("input", {
      class: "ls-field",
      readonly: "",
      "aria-label": "The link to this experiment",
      hidden: "",
    });
    this.field.addEventListener("focus", () => this.field.select());
    root.replaceChildren(html("div", { role: "status" }, this.notices, this.told), this.field);
  }

  // The link in the address bar has changed; the server reads it.
  follow() {
    const { projection, speed, lesson } = window.leakscopeView;
    if (projection) window.leakscope?.map.pick(projection === "3d" ? 1 : 0);
    window.leakscope?.player.setSpeed(Number(speed));
    this.onFollow();
    if (lesson) window.leakscopeLesson?.open(lesson);
  }

  show({ notices, link, problem }) {
    if (notices) {
      this.list.replaceChildren(...notices.map((notice) => html("li", {}, notice)));
      this.notices.hidden = !notices.length;
      this.opened = true;
    }
    if (problem) {
      this.say(`No link: ${problem}.`);
      this.refuse?.(new Error(problem));
    } else if (link) this.give?.(new URL(link, location.origin + location.pathname).href);
  }

  // Called in the click itself, as a browser lets nothing else write to the clipboard; the text follows from the
  // server.
  copy() {
    this.field.hidden = true;
    const link = new Promise((give, refuse) => Object.assign(this, { give, refuse }));
    const blob = link.then((text) => new Blob([text], { type: "text/plain" }));
    blob.catch(() => {}); // what is wrong has been said
    const written = new Promise((resolve) =>
      resolve(navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })])),
    );
    written.then(
      () => this.say("Link copied. It holds the sentence and every setting."),
      () =>
        link.then(
          (text) => this.offer(text),
          () => {},
        ),
    );
  }

  offer(link) {
    this.say("This browser keeps its clipboard to itself: copy the link from here.");
    Object.assign(this.field, { value: link, hidden: false });
    this.field.focus();
  }

  say(text) {
    this.told.textContent = text;
  }

  // How the page is looked at, as fields of a link.
  view() {
    const { hide, present, lesson } = window.leakscopeView,
      { map, player } = window.leakscope;
    const fields = { hide, present, lesson, projection: map.chosen ? "3d" : "2d", speed: player.speed };
    return new URLSearchParams(Object.entries(fields).filter(([, value]) => value)).toString();
  }
}
