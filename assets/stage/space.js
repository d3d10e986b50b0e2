/* Space plays and pauses wherever the keyboard is, unless one is typing there or it presses something. A button that
   was clicked with the mouse only happens to have the keyboard: there Space plays too. */

const TAKEN =
  "button, summary, select, textarea, input:not([type=range]), [contenteditable]:not([contenteditable=false]), " +
  "[role=button], [role=tab], [role=option], [role=combobox], [role=checkbox], [role=radio], " +
  "[role=switch], [role=menuitem]";
let clicked = null;
let held = false;

document.addEventListener(
  "pointerdown",
  ({ target }) => {
    clicked = target.closest?.("button") ?? null;
  },
  true,
);
document.addEventListener(
  "keydown",
  ({ key }) => {
    if (key === "Tab") clicked = null;
  },
  true,
);
document.addEventListener(
  "keyup",
  (event) => {
    if (event.key !== " " || !held) return;
    held = false;
    event.preventDefault(); // some browsers press a button only now
  },
  true,
);

// `act` says whether it did something.
export function onSpace(act) {
  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (key !== " " || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (target.closest?.(TAKEN) && !clicked?.contains(target)) return;
    if (event.repeat ? !held : !act()) return;
    held = true;
    event.preventDefault();
  });
}
