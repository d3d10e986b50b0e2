/* Recordings of one's own or of others, from a file: chosen, or dropped onto the page. */
import { Damaged, MOST_BYTES, read, tooLarge } from "./recording.js";

/* Shows the file on the stage; what is wrong with it is told, and the stage stays as it is. */
export async function openFile(file, stage, tell) {
  try {
    if (file.size > MOST_BYTES) throw new Damaged(tooLarge(file.size));
    const recording = read(await file.text());
    stage.present(recording);
    tell("");
  } catch (problem) {
    tell(problem instanceof Damaged ? `Not opened: ${problem.message}.` : "Not opened: the file cannot be read.");
  }
}

/* A file that is dropped anywhere on the page would otherwise replace it. */
export function acceptDrops(stage, tell) {
  const holdsFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const mark = (on) => stage.root.classList.toggle("ls-dropping", on);
  document.addEventListener("dragover", (event) => {
    if (!holdsFile(event)) return;
    event.preventDefault();
    mark(true);
  });
  document.addEventListener("dragleave", (event) => event.relatedTarget ?? mark(false));
  document.addEventListener("drop", (event) => {
    if (!holdsFile(event)) return;
    event.preventDefault();
    mark(false);
    const [file] = event.dataTransfer.files;
    if (file) openFile(file, stage, tell);
    stage.root.scrollIntoView({ block: "nearest" });
  });
}
