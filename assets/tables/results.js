/* Tables of results: published columns and ours, told apart; each scrolls in its own box. */
import { html } from "../stage/dom.js";
import { NoiseCurve } from "./curve.js";

const OURS = "ours: ";

export class Results {
  constructor(root, { plotly }) {
    Object.assign(this, { root, plotly });
  }

  show(text) {
    if (text === this.shown) return;
    this.shown = text;
    const tables = JSON.parse(text);
    this.root.replaceChildren(...tables.map((table) => this.section(table)));
    this.root.dataset.tables = tables.filter(({ header }) => header.length).length;
  }

  section({ name, title, source, about, command, curve, header, rows }) {
    const there = header.length > 0;
    const head = html("div", { class: "ls-head" }, html("h3", { class: "ls-title" }, title));
    if (there)
      head.append(
        html("a", { class: "ls-button", href: `static/assets/results/${name}.csv`, download: `${name}.csv` }, "CSV"),
      );
    const parts = [
      head,
      html(
        "p",
        { class: "ls-about" },
        ...about.split("`").map((words, n) => (n % 2 ? html("code", {}, words) : words)),
      ),
      cited(source),
    ];
    if (there && curve) parts.push(new NoiseCurve(this.plotly, curve, rows).node);
    parts.push(
      there
        ? html("div", { class: "ls-scroll", tabindex: "0", role: "region", "aria-label": title }, table(header, rows))
        : html("p", { class: "ls-missing" }, "Not measured yet. To measure it: ", html("code", {}, command)),
    );
    return html("section", { "data-table": name }, ...parts);
  }
}

// "Deng et al. 2021, Table II (https://…)": the address becomes a link.
function cited(source) {
  const [, words, address] = source.match(/^(.*?)\s*\((https:\/\/[^\s)]+)\)/) ?? [null, source, ""];
  const rest = address ? source.slice(source.indexOf(address) + address.length + 1) : "";
  const link = address ? html("a", { href: address, target: "_blank", rel: "noopener" }, words) : words;
  return html("p", { class: "ls-source" }, link, rest);
}

function table(header, rows) {
  const mixed = header.some((name) => name.startsWith(OURS)); // else all of it is ours
  const columns = mixed ? header.map(columnOf) : header.map((label) => ({ label, ours: false }));
  const above = grouped(columns).map(({ group, span }) =>
    heading(group, { colspan: span, scope: "colgroup", "data-ours": group.startsWith("ours") }),
  );
  const names = columns.map(({ label, ours }) => heading(label, { scope: "col", "data-ours": ours }));
  return html(
    "table",
    {},
    html("thead", {}, ...(mixed ? [html("tr", {}, ...above)] : []), html("tr", {}, ...names)),
    html("tbody", {}, ...rows.map((row) => line(row, columns))),
  );
}

// A corner without words heads nothing.
function heading(text, attributes) {
  return text ? html("th", attributes, text) : html("td", { colspan: attributes.colspan ?? 1 });
}

// What a column is called, and under which heading; how many sentences there were is a figure of ours too.
function columnOf(name, place) {
  if (name.startsWith(OURS)) {
    const [attack, ...label] = name.slice(OURS.length).split(", ");
    return { group: `ours, ${attack}`, label: label.join(", "), ours: true };
  }
  if (name === "sentences") return { group: "ours", label: name, ours: true };
  if (place) return { group: "published", label: name, ours: false };
  return { group: "", label: "", ours: false }; // the title once more
}

function grouped(columns) {
  const groups = [];
  for (const { group = "" } of columns) {
    if (groups.at(-1)?.group === group) groups.at(-1).span += 1;
    else groups.push({ group, span: 1 });
  }
  return groups;
}

// A line that could not be had says so across the rest of its columns.
function line(row, columns) {
  const cells = row.map((text, n) => {
    const attributes = { "data-ours": columns[n]?.ours ?? false };
    if (n === 0) return html("th", { scope: "row" }, text);
    if (n === row.length - 1 && row.length < columns.length)
      Object.assign(attributes, { colspan: columns.length - n, class: "ls-words" });
    return html("td", attributes, text || "–");
  });
  return html("tr", {}, ...cells);
}
