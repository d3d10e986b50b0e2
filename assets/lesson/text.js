/* The words of a lesson: plain, or a term of the glossary, or a link. */
import { html } from "../stage/dom.js";

export function worded(parts, onTerm) {
  return parts.map(({ words, term, link }) => {
    if (term) return termed(words, term, onTerm);
    return link ? linked(words, link) : words;
  });
}

function termed(words, term, onTerm) {
  const node = html("button", { type: "button", class: "ls-term", "aria-expanded": "false", "data-term": term }, words);
  node.addEventListener("click", () => onTerm(term, node));
  return node;
}

// #results is one of the page's own tabs.
function linked(words, link) {
  if (link.startsWith("https://"))
    return html("a", { href: link, target: "_blank", rel: "noopener noreferrer" }, words);
  const tab = tabNamed(link.slice(1));
  if (!tab) return words;
  const node = html("a", { href: link }, words);
  node.addEventListener("click", (event) => {
    event.preventDefault();
    tabNamed(link.slice(1))?.click();
  });
  return node;
}

export const tabNamed = (name) =>
  [...document.querySelectorAll("#tabs button[role=tab]")].find((tab) => tab.textContent.trim().toLowerCase() === name);
