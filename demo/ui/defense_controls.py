"""The defenses on the page: a switch for each, with its own settings behind it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gradio as gr

from demo.client.defenses import DEFENSES, told_of
from demo.settings import settings_of
from demo.ui.choices import defenses_from
from demo.ui.components import control_for
from demo.victim.gradients import Defense

HEADING = "Defenses"


@dataclass(frozen=True)
class Defending:
    """The controls of all defenses, in the table's order."""

    group: gr.Accordion
    on: dict[str, gr.Checkbox]
    boxes: dict[str, gr.Group]  # what shows while the defense is on
    own: dict[str, list[Any]]  # one control per setting
    notes: dict[str, gr.Markdown]  # of those that have more to say
    cost: gr.Markdown

    @property
    def values(self) -> list[Any]:
        """What `chosen` takes."""
        return [control for name in DEFENSES for control in (self.on[name], *self.own[name])]


def defense_controls() -> Defending:
    on, boxes, own, notes = {}, {}, {}, {}
    with gr.Accordion(HEADING, open=False, elem_id="defenses") as group:
        for name, kind in DEFENSES.items():
            on[name] = gr.Checkbox(False, label=name, info=kind.about, elem_id=f"defense-{name}")
            with gr.Group(visible=False, elem_id=f"settings-{name}") as boxes[name]:
                plain = kind()
                with gr.Row():
                    own[name] = [control_for(f, getattr(plain, f.name)) for f in settings_of(plain)]
                if plain.note:
                    notes[name] = gr.Markdown(elem_id=f"note-{name}", elem_classes="ls-note ls-inset")
        cost = gr.Markdown(elem_id="cost", elem_classes="ls-note")
    return Defending(group, on, boxes, own, notes, cost)


def connect_defenses(controls: Defending, quick: dict[str, Any]) -> None:
    """What the switches open, and what their settings mean."""
    for name, switch in controls.on.items():
        switch.change(lambda on: gr.Group(visible=on), switch, controls.boxes[name], **quick)
    changes = [control.change for control in controls.values]
    gr.on(changes, lambda *values: gr.Accordion(label=heading(values)), controls.values, controls.group, **quick)
    for name, note in controls.notes.items():
        these = [controls.on[name], *controls.own[name]]
        gr.on([control.change for control in these], partial(note_of, name), these, note, **quick)


def chosen(values: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """The controls' values -> the settings of those that are on."""
    rest: Iterator[Any] = iter(values)
    found = {}
    for name, kind in DEFENSES.items():
        on, settings = next(rest), {field.name: next(rest) for field in settings_of(kind)}
        if on:
            found[name] = settings
    return found


def values_of(defenses: Sequence[Defense]) -> list[Any]:
    """The controls' values under which these defenses are on, and no others."""
    values: list[Any] = []
    for kind in DEFENSES.values():
        this = next((defense for defense in defenses if type(defense) is kind), None)
        values += [this is not None, *(getattr(this, f.name) if this else gr.skip() for f in settings_of(kind))]
    return values


def heading(values: Sequence[Any]) -> str:
    """The closed group still tells what is on in it."""
    try:
        return " · ".join([HEADING, *map(told_of, defenses_from(chosen(values)))])
    except ValueError as problem:
        return f"{HEADING} · ⚠ {problem}"


def note_of(name: str, on: bool, *settings: Any) -> str:
    """What a defense's settings mean: the privacy that noise buys."""
    if not on:
        return ""
    try:
        named = dict(zip((f.name for f in settings_of(DEFENSES[name])), settings, strict=True))
        (defense,) = defenses_from({name: named})
    except ValueError as problem:
        return f"⚠ {problem}."
    return defense.note
