/* The verdict: what was shown in the end, with a seal where it was proven. */
import { html } from "./dom.js";

export class Verdict {
  constructor() {
    this.headline = html("div", { class: "ls-headline" });
    this.detail = html("div", { class: "ls-detail" });
    this.node = html(
      "div",
      { class: "ls-verdict" },
      html("span", { class: "ls-seal", "aria-hidden": "true" }, "✓"),
      html("div", {}, this.headline, this.detail),
    );
  }

  draw(end, open = "…") {
    this.node.dataset.kind = end ? (end.certified ? "certified" : "plain") : "open";
    this.headline.textContent = end?.headline ?? open;
    this.detail.textContent = end?.detail ?? "";
  }
}
