/* A recording as one HTML file with its player in it: it plays from a disk, offline, and asks nobody for anything.
   Plotly alone would weigh 4 MB, so the file carries the flat map (flat.js) in place of the one that turns (map.js). */

const ROOT = new URL("../", import.meta.url);
const STYLES = ["stage.css", "stage/tree.css"];
const INSTEAD = { "stage/map.js": "stage/flat.js" };
const IMPORT = /^import \{([^}]*)\} from "([^"]+)";$/gm;
const EXPORT = /^export (const|class|function|async function) (\w+)/gm;
// Nothing may be fetched, whatever the recording holds.
const POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

export async function pageOf(recording) {
  const [scripts, ...styles] = await Promise.all([bundled("stage.js"), ...STYLES.map(fetched)]);
  const data = JSON.stringify(recording).replaceAll("<", "\\u003c");
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Leakscope: a recorded run</title>
<style>
${styles.join("\n")}
body { margin: 0 auto; padding: 1rem; max-width: 1300px; background: #fff; }
body.dark { background: #0b0c10; }
</style>
</head>
<body>
<div id="stage"></div>
<script type="application/json" id="recording">${data}</script>
<script>
"use strict";
document.body.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
const modules = {};
${scripts.replaceAll("</script", "<\\/script")}
const stage = new modules["stage.js"].Stage(document.querySelector("#stage"));
stage.present(JSON.parse(document.querySelector("#recording").textContent));
</script>
</body>
</html>
`;
}

async function fetched(name) {
  const answer = await fetch(new URL(name, ROOT));
  if (!answer.ok) throw new Error(`${name} could not be fetched`);
  return answer.text();
}

/* A module and all that it imports, each once and after what it needs, as functions that a plain script can run: a
   browser imports no module from a disk. */
async function bundled(name, done = new Set()) {
  if (done.has(name)) return "";
  done.add(name);
  const source = await fetched(name),
    base = new URL(name, ROOT);
  const named = (path) => {
    const full = new URL(path, base).href.slice(ROOT.href.length);
    return INSTEAD[full] ?? full;
  };
  let before = "";
  for (const [, , path] of source.matchAll(IMPORT)) before += await bundled(named(path), done);
  const exported = [...source.matchAll(EXPORT)].map(([, , what]) => what);
  const body = source
    .replace(IMPORT, (_, names, path) => `const {${names.replaceAll(" as ", ": ")}} = modules["${named(path)}"];`)
    .replace(EXPORT, "$1 $2");
  return `${before}modules["${name}"] = (() => {\n${body}\nreturn { ${exported.join(", ")} };\n})();\n`;
}
