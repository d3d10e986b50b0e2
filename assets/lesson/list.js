/* The tab Lessons: a card for each, and the glossary. */
import { html } from "../stage/dom.js";

export function list(root, { lessons, glossary }, onOpen) {
  const cards = Object.values(lessons).map((lesson, n) => card(lesson, n + 1, onOpen));
  const terms = Object.entries(glossary).map(([term, meaning]) =>
    html("div", {}, html("dt", {}, term), html("dd", {}, meaning)),
  );
  root.replaceChildren(
    html("ol", { class: "ls-cards" }, ...cards),
    html("h3", {}, "Glossary"),
    html("dl", { class: "ls-glossary" }, ...terms),
  );
}

// A link, so that it can be passed on: ?lesson=NAME opens the page with it.
function card({ name, title, about, steps }, number, onOpen) {
  const link = html(
    "a",
    { class: "ls-card", href: `?lesson=${encodeURIComponent(name)}` },
    html("span", { class: "ls-ordinal", "aria-hidden": "true" }, number),
    html("span", { class: "ls-card-text" }, html("strong", {}, title), html("span", {}, about)),
    html("span", { class: "ls-card-steps" }, `${steps.length} steps`),
  );
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a tab of its own
    event.preventDefault();
    onOpen(name);
  });
  return html("li", {}, link);
}
