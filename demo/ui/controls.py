"""The client's side: its controls in reading order, and how their values make an experiment."""

import secrets
from dataclasses import dataclass
from typing import Any

import gradio as gr

from demo.attacker.attacks import ATTACKS
from demo.client.client import Client
from demo.client.defenses import DEFENSES
from demo.client.secret import MOST_SENTENCES
from demo.runs.engine import Experiment
from demo.settings import settings_of
from demo.ui import components
from demo.ui.asked import LABELS, WEIGHTS
from demo.ui.choices import DEFAULT, PRESETS, experiment_from
from demo.ui.client_controls import client_controls
from demo.ui.components import control_for
from demo.ui.defense_controls import Defending, chosen, defense_controls, values_of
from demo.ui.drawing import chosen_in, drawing_of
from demo.ui.limits import Limits
from demo.victim.hub import PATIENCE
from demo.victim.models import MODELS, outline, unavailable

TURNS = "by turns"
TRAINING = "How the client trains"
OWN_SETTINGS = tuple(name for name, attack in ATTACKS.items() if settings_of(attack))
TRAINED = len(settings_of(Client))  # values that tell of the client
DEFENDED = sum(1 + len(settings_of(kind)) for kind in DEFENSES.values())  # values that tell of the defenses


@dataclass(frozen=True)
class Controls:
    """The client's side: every control, by what it means."""

    sentence: gr.Textbox
    said: gr.Markdown
    go: gr.Button
    stop: gr.Button
    copy: gr.Button
    links: gr.HTML
    preset: gr.HTML
    label: gr.Radio
    how: gr.Accordion
    client: dict[str, Any]  # one control per field of the client
    batch: gr.Dropdown
    model: gr.Dropdown
    weights: gr.Dropdown
    drawing: gr.HTML
    attack: gr.Dropdown
    seconds: gr.Slider
    about: gr.Markdown
    knows: gr.CheckboxGroup
    seed: gr.Number
    scale: gr.Number
    groups: list[gr.Group]
    own: list[Any]  # one control per setting of each attack
    defending: Defending

    @property
    def values(self) -> list[Any]:
        """What makes an experiment, in the order that `experiment_of` takes."""
        return [
            self.sentence,
            self.label,
            self.model,
            self.weights,
            self.scale,
            self.drawing,
            self.attack,
            self.knows,
            self.seconds,
            self.seed,
            *self.client.values(),
            *self.defending.values,
            *self.own,
        ]


def client_side(limits: Limits, model: str, note: str) -> Controls:
    """Lays out the controls, in reading order."""
    gr.Markdown("## The client <small>private</small>", elem_classes="ls-side")
    return Controls(**_secret(note), **_training(limits, model), **_leak(model), **_attack(limits))


def _secret(note: str) -> dict[str, Any]:
    with gr.Column(elem_id="secret"):
        sentence = gr.Textbox(
            DEFAULT.sentence,
            label="The secret sentence",
            lines=2,
            max_lines=8,
            elem_id="sentence",
            placeholder="Type a sentence: Enter attacks, Shift+Enter adds a line",
        )
        preset = components.examples(PRESETS, elem_id="preset")
    said = gr.Markdown(note, elem_id="said", elem_classes="ls-note")
    with gr.Row():
        go = gr.Button("Attack", variant="primary", elem_id="go", scale=2, min_width=110)
        stop = gr.Button("Stop", elem_id="stop", min_width=70)
        copy = gr.Button("Copy link", elem_id="copy-link", min_width=100)
    links = components.links(elem_id="links")
    return {
        "sentence": sentence,
        "preset": preset,
        "said": said,
        "go": go,
        "stop": stop,
        "copy": copy,
        "links": links,
    }


def _training(limits: Limits, model: str) -> dict[str, Any]:
    label = gr.Radio([*LABELS, TURNS], value=DEFAULT.labels[0], label="Label the client trains on", elem_id="label")
    with gr.Accordion(TRAINING, open=False, elem_id="how") as how:
        client = client_controls(model, DEFAULT.client)
        batch = gr.Dropdown(
            list(range(1, MOST_SENTENCES + 1)),
            value=1,
            label="Sentences in the batch",
            elem_id="batch",
            info="one a line in the box above (Shift+Enter)",
        )
    with gr.Row():
        names = [(MODELS[name].title, name) for name in limits.models]
        which = gr.Dropdown(names, value=model, label="Model", elem_id="model")
        weights = weight_menu(model)
    return {"label": label, "how": how, "client": client, "batch": batch, "model": which, "weights": weights}


def _leak(model: str) -> dict[str, Any]:
    gr.Markdown("## What leaks <small>click a block to expose it</small>", elem_classes="ls-side", elem_id="leak")
    drawing = components.drawing(drawing_of(model, DEFAULT.slice, DEFAULT.layers), elem_id="drawing")
    return {"drawing": drawing, "defending": defense_controls()}


def _attack(limits: Limits) -> dict[str, Any]:
    with gr.Row():
        attack = gr.Dropdown(list(ATTACKS), value=DEFAULT.attack, label="Attack", elem_id="attack-name")
        seconds = gr.Slider(1, limits.seconds, limits.budget, step=1, label="Seconds", elem_id="seconds")
    about = gr.Markdown(ATTACKS[DEFAULT.attack].about, elem_id="about", elem_classes="ls-note")
    with gr.Accordion("Advanced", open=False, elem_id="advanced"):
        knows = gr.CheckboxGroup(["length", "label"], value=["length", "label"], label="The attacker is told")
        with gr.Row():
            seed = gr.Number(0, label="Seed", precision=0, minimum=0)
            scale = gr.Number(0.02, label="Scale of random weights", minimum=1e-3, maximum=1)
        groups, own = settings_controls()
    told = {"attack": attack, "seconds": seconds, "about": about, "knows": knows, "seed": seed, "scale": scale}
    return {**told, "groups": groups, "own": own}


def experiment_of(values: tuple[Any, ...], limits: Limits, device: str | None) -> Experiment:
    """The controls' values -> a checked experiment."""
    sentence, label, model, weights, scale, picked, attack, knows, seconds, seed, *rest = values
    trained, rest = rest[:TRAINED], rest[TRAINED:]
    defended, own = rest[:DEFENDED], rest[DEFENDED:]
    slice, layers = chosen_in(picked)
    fields = [(name, f.name) for name in OWN_SETTINGS for f in settings_of(ATTACKS[name])]
    settings = {field: value for (name, field), value in zip(fields, own, strict=True) if name == attack}
    told = ("length" in knows, "label" in knows) if isinstance(knows, list) else (False, False)
    labels = labels_for(label, sentence if isinstance(sentence, str) else "")
    asked = {
        "sentence": sentence,
        "labels": labels,
        "model": model,
        "weights": weights,
        "scale": scale,
        "slice": slice,
        "layers": layers,
        "attack": attack,
        "knows_length": told[0],
        "knows_label": told[1],
        "seconds": seconds,
        "seed": seed,
        "settings": settings,
        "defenses": chosen(defended),
        **{field.name: value for field, value in zip(settings_of(Client), trained, strict=True)},
    }
    return experiment_from(limits, asked, device)


def control_values(experiment: Experiment) -> list[Any]:
    """The other way round: the values of `Controls.values` under which the page asks for this experiment."""
    weights, own = experiment.weights, dict(experiment.settings)
    told = {"length": experiment.knows_length, "label": experiment.knows_label}
    client = experiment.client.settled(outline(experiment.model).net)
    drawing = drawing_of(experiment.model, experiment.slice, experiment.layers, client, secrets.token_hex(4))
    label = experiment.labels[0] if len(set(experiment.labels)) == 1 else TURNS
    settings = [
        own[field.name] if name == experiment.attack and field.name in own else getattr(ATTACKS[name], field.name)
        for name in OWN_SETTINGS
        for field in settings_of(ATTACKS[name])
    ]
    return [
        experiment.sentence,
        label,
        experiment.model,
        weights.kind if weights else MODELS[experiment.model].default,
        weights.scale if weights else 0.02,
        drawing,
        experiment.attack,
        [what for what, so in told.items() if so],
        experiment.seconds,
        experiment.seed,
        *vars(client).values(),
        *values_of(experiment.defenses),
        *settings,
    ]


def labels_for(choice: int | str, sentence: str) -> list[int]:
    """One label for all sentences of the batch, or both by turns."""
    if choice == TURNS:
        return [n % len(LABELS) for n in range(max(1, len(Experiment(sentence).sentences)))]
    return [choice]  # type: ignore[list-item]  # checked with all else that the browser sends


def weight_menu(model: str, chosen: str | None = None) -> gr.Dropdown:
    """The kinds of weights; those that cannot be had here say so, and why once they are chosen."""
    kinds = [(f"{kind} (not here)" if unavailable(model, kind, PATIENCE) else kind, kind) for kind in WEIGHTS]
    return gr.Dropdown(kinds, value=chosen or MODELS[model].default, label="Weights", elem_id="weights")


def settings_controls() -> tuple[list[gr.Group], list[Any]]:
    """A group of controls for each attack that has settings, built from its fields; only the chosen one shows."""
    groups, controls = [], []
    for name in OWN_SETTINGS:
        with gr.Group(visible=name == DEFAULT.attack) as group:
            for field in settings_of(ATTACKS[name]):
                controls.append(control_for(field, getattr(ATTACKS[name], field.name)))
        groups.append(group)
    return groups, controls
