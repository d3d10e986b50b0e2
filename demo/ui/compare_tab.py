"""The tab Compare: two experiments on one timeline, side by side."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import Field, replace
from typing import Any

import gradio as gr

from demo.attacker.attacks import ATTACKS, current
from demo.client.client import Client
from demo.client.defenses import DEFENSES
from demo.runs.engine import Experiment
from demo.screen.comparisons import NO_DEFENSE, READY, Change, changed, comparison
from demo.screen.messages import Message
from demo.settings import clamp, fitting, label_of, settings_of
from demo.ui.choices import DEFAULT
from demo.ui.computing import guarded, on_gpu
from demo.ui.controls import Controls, experiment_of
from demo.ui.limits import Limits
from demo.ui.notes import QUICKLY
from demo.ui.start_and_stop import Run
from demo.victim.models import outline
from demo.victim.slices import slices_of

COMPARE = """
## Two experiments, one clock
Both start from the Attack tab: its sentence, model, training, defenses and seed. Choose what A and
B do differently. They take turns on this machine, and each one's clock runs only while its own attack does.
"""
# A recording is shown until the person's own comparison begins.
SCRIPT = """
const ready = import(new URL('static/assets/compare/compare.js', document.baseURI)).then(({ Comparison }) => {
    window.leakscopeCompare = new Comparison(element.querySelector('.ls-two'), {
        recording: 'static/assets/recordings/compare.json',
    });
    return window.leakscopeCompare;
});
watch('value', () => {
    const value = props.value;
    if (value) ready.then((screen) => screen.hear(JSON.parse(value)));
});
"""
AS_IT_IS = "as it is"
WIDTHS = {"What leaks": 3, "Defense": 3}  # of the menus with long names
FEW = 5  # rates that a menu offers
YES = {"yes": True, "no": False}
SECONDS = 20.0


def compare_tab(controls: Controls, limits: Limits, device: str | None) -> Run:
    gr.Markdown(COMPARE, elem_classes="ls-intro")
    with gr.Row(elem_classes="ls-tools"):
        first = next(iter(READY))
        ready = gr.Dropdown(list(READY), value=first, label="Ready comparisons", elem_id="compare-ready")
        longest = limits.seconds / 2  # both together take no longer than one attack may
        seconds = gr.Slider(
            1, longest, min(SECONDS, limits.budget / 2, longest), step=1, label="Seconds each", min_width=220
        )
        start = gr.Button("Compare", variant="primary", elem_id="compare-go")
        stop = gr.Button("Stop", elem_id="compare-stop")
    with gr.Row(elem_classes="ls-sides"):
        sides = [menus(side, change) for side, change in zip("AB", READY[first], strict=True)]
    picture = gr.HTML(
        "",
        html_template='<div class="ls-stage ls-two"></div>',
        js_on_load=SCRIPT,
        apply_default_css=False,
        elem_id="compare",
    )
    every = [*sides[0], *sides[1]]

    def stream(seconds: float, *values: Any) -> Generator[Message]:
        base = replace(experiment_of(values[len(every) :], limits, device), seconds=clamp(seconds, 1.0, longest))
        yield from guarded(compared_on_gpu(*planned(base, values[: len(every)])))

    ready.input(lambda name: [chosen for change in READY[name] for chosen in shown(change)], ready, every, **QUICKLY)
    gr.on([menu.input for menu in every], lambda: None, None, ready, **QUICKLY)
    layers = [side[1] for side in sides]
    controls.model.change(lambda model: [layer_menu(model)] * len(layers), controls.model, layers, **QUICKLY)
    return Run("leakscopeCompare", [start.click], stop, stream, [seconds, *every, *controls.values], picture)


def compared(a: Experiment, b: Experiment) -> Iterator[Message]:
    """The comparison, wherever it is computed."""
    yield from guarded(comparison(a, b))


compared_on_gpu = on_gpu(compared)


def planned(base: Experiment, values: Sequence[Any]) -> tuple[Experiment, Experiment]:
    """The menus' values -> the two experiments."""
    half = len(values) // 2
    return changed(base, change_of(*values[:half])), changed(base, change_of(*values[half:]))


def menus(side: str, change: Change) -> list[gr.Dropdown]:
    """What one side may do differently, in the order of `Change`'s fields."""
    defenses = [f"{name}={value}" for name, kind in DEFENSES.items() for value in kind.strengths]
    without = [name for name, kind in DEFENSES.items() if not settings_of(kind)]
    choices: list[tuple[str, list[Any]]] = [
        ("What leaks", [(slice.title, name) for name, slice in slices_of(outline(DEFAULT.model)).items()]),
        ("Layer", list(range(outline(DEFAULT.model).layers))),
        ("Attack", list(ATTACKS)),
        ("Defense", [NO_DEFENSE, *defenses, *without]),
        *((label_of(field), few_of(field)) for field in settings_of(Client)),
    ]
    with gr.Column(min_width=320, elem_classes="ls-menus"):
        gr.Markdown(f"## {side}", elem_classes=f"ls-side ls-side-{side.lower()}")
        with gr.Row():
            return [
                gr.Dropdown(
                    [AS_IT_IS, *those],
                    value=value,
                    label=name,
                    min_width=110,
                    scale=WIDTHS.get(name, 2),
                    elem_id=f"{name.split()[-1].lower()}-{side}",
                    allow_custom_value=name == "Defense",  # any strength may be typed
                )
                for (name, those), value in zip(choices, shown(change), strict=True)
            ]


def layer_menu(model: str) -> gr.Dropdown:
    return gr.Dropdown([AS_IT_IS, *range(outline(model).layers)], value=AS_IT_IS)


def few_of(field: Field) -> list[Any]:
    """The values that a menu offers of a field of the client."""
    told = field.metadata
    if told["choices"]:
        return list(filter(None, told["choices"]))
    if isinstance(field.default, bool):
        return list(YES)
    if isinstance(field.default, int):
        return list(range(told["low"], told["high"] + 1))
    return [round(told["low"] + n * (told["high"] - told["low"]) / (FEW - 1), 6) for n in range(FEW)]


def shown(change: Change) -> list[Any]:
    """A change as the menus show it."""
    words = {so: word for word, so in YES.items()}
    named = {name: words[value] if isinstance(value, bool) else value for name, value in change.client}
    trained = [named.get(field.name) for field in settings_of(Client)]
    told = [change.slice, change.layer, change.attack, change.defense, *trained]
    return [AS_IT_IS if value is None else value for value in told]


def change_of(slice: Any, layer: Any, attack: Any, defense: Any, *trained: Any) -> Change:
    """The menus' values, which come from a browser -> a change."""
    told = [None if value in (AS_IT_IS, None, "") else value for value in (slice, layer, attack, defense)]
    slice, layer, attack, defense = told
    if layer is not None and not isinstance(layer, int):
        raise ValueError(f"layer {str(layer)[:40]!r} is not a number: choose one from the menu")
    attack = current(attack) if isinstance(attack, str) else attack
    if attack is not None and attack not in ATTACKS:
        raise ValueError(f"unknown attack {str(attack)[:40]!r}: choose one of {', '.join(ATTACKS)}")
    return Change(
        str(slice)[:40] if slice else None,
        layer,
        attack,
        str(defense).strip()[:40] if defense else None,
        tuple(
            (field.name, fitting(field, of_menu(field, value)))
            for field, value in zip(settings_of(Client), trained, strict=False)
            if value not in (AS_IT_IS, None, "")
        ),
    )


def of_menu(field: Field, value: Any) -> Any:
    return YES.get(value, value) if isinstance(field.default, bool) and isinstance(value, str) else value
