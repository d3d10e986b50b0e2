"""The page: the client's controls on the left, the attacker's stage on the right, and what happens between them."""

import json
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from demo.attacks import ATTACKS
from demo.engine import Experiment, run, set_up
from demo.leak import MOST_DROPOUT, MOST_SENTENCES
from demo.messages import training
from demo.models import MODELS, load, outline, unavailable
from demo.settings import settings_of
from demo.slices import all_pieces, count
from demo.ui import components
from demo.ui.api import endpoint, told
from demo.ui.choices import DEFAULT, LABELS, PRESETS, WEIGHTS, Limits, check_batch, experiment_from, resized
from demo.ui.components import chosen_in, drawing_of

TITLE = "Leakscope · watch a gradient give away its sentence"
INTRO = """
# Leakscope <small>watch a gradient give away its sentence</small>
In federated learning a client keeps its text and shares only a gradient. Expose a slice of it, press **Attack**, and
see what it tells.
"""
# Attack: a new ticket starts a run. Gradio cancels the run under way in its own time, and would take a run that starts
# meanwhile for the cancelled one; so then the ticket is only wanted, and handed out when the old run is gone.
START_JS = """(ticket) => {
    const stage = window.leakscope, busy = stage.busy;
    stage.waiting();
    stage.wanted = busy;
    stage.busy = true;
    const phone = matchMedia('(max-width: 959px)').matches;  // one column: the stage has to come into view
    if (phone) document.querySelector('#stage').scrollIntoView({ behavior: 'smooth' });
    return busy ? ticket : Date.now();
}"""
GONE_JS = """(ticket) => {
    const stage = window.leakscope, wanted = stage.wanted;
    stage.busy = wanted;
    stage.wanted = false;
    return wanted ? Date.now() : ticket;
}"""
STOP_JS = "() => { window.leakscope.wanted = false; window.leakscope.stopped(); }"
TURNS = "by turns"
DEVICE = "attack"  # one running attack per device: page and API wait in the same line
TRAINING = "How the client trains"
QUICK = 50e6  # parameters of models that take a training step in a moment
OWN_SETTINGS = tuple(name for name, attack in ATTACKS.items() if settings_of(attack))


@dataclass(frozen=True)
class Controls:
    """The client's side: every control, by what it means."""

    sentence: gr.Textbox
    said: gr.Markdown
    go: gr.Button
    stop: gr.Button
    preset: gr.Dropdown
    label: gr.Radio
    how: gr.Accordion
    dropout: gr.Slider
    frozen: gr.Checkbox
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

    @property
    def values(self) -> list[Any]:
        """What makes an experiment, in the order that `experiment_of` takes."""
        return [
            self.sentence, self.label, self.model, self.weights, self.scale, self.drawing, self.attack, self.knows,
            self.seconds, self.seed, self.dropout, self.frozen, *self.own,
        ]  # fmt: skip


def build(limits: Limits, model: str = DEFAULT.model, device: str | None = None) -> gr.Blocks:
    """The whole app; `launch()` of the result serves it."""
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        gr.Markdown(INTRO, elem_classes="ls-intro")
        with gr.Row(elem_classes="ls-columns"):
            with gr.Column(scale=2, min_width=340, elem_classes="ls-client"):
                controls = client_side(limits, model)
            with gr.Column(scale=3, min_width=340, elem_classes="ls-attacker"):
                gr.Markdown("### The attacker <small>sees only what glows</small>", elem_classes="ls-side")
                stage = components.stage(elem_id="stage")
        connect_attack(controls, stage, limits, device)
        connect_notes(controls, limits, device)
        gr.api(endpoint(limits, device), api_name="attack", concurrency_id=DEVICE, concurrency_limit=1)
    threading.Thread(target=warm_up, args=(replace(DEFAULT, model=model, device=device),), daemon=True).start()
    return page


def warm_up(experiment: Experiment) -> None:
    """The model in memory and a few steps taken, while the visitor reads: the first click should not wait for it."""
    load(experiment.model, experiment.weights, experiment.device)
    if experiment.model == DEFAULT.model:
        for frame in run(experiment):
            if frame.snapshot.step > 3:
                return


def client_side(limits: Limits, model: str) -> Controls:
    """Lays out the controls, in reading order."""
    gr.Markdown("### The client <small>private</small>", elem_classes="ls-side")
    sentence = gr.Textbox(DEFAULT.sentence, label="The secret sentence", lines=2, max_lines=8, elem_id="sentence")
    note = sentence_note(limits, model, DEFAULT.sentence)
    said = gr.Markdown(note, elem_id="said", elem_classes="ls-note")
    with gr.Row():
        go = gr.Button("Attack", variant="primary", elem_id="go")
        stop = gr.Button("Stop", elem_id="stop")
    with gr.Row():
        preset = gr.Dropdown(list(PRESETS), value=None, label="Examples", elem_id="preset")
        label = gr.Radio([*LABELS, TURNS], value=DEFAULT.labels[0], label="Label the client trains on", elem_id="label")
    with gr.Accordion(TRAINING, open=False, elem_id="how") as how:
        dropout = gr.Slider(
            0, MOST_DROPOUT, DEFAULT.dropout, step=0.05, label="Dropout", elem_id="dropout",
            info="eval mode at 0; BERT's own is 0.1",
        )  # fmt: skip
        frozen = gr.Checkbox(
            DEFAULT.frozen_embeddings, label="Embeddings frozen (their gradient is not shared)", elem_id="frozen"
        )
        batch = gr.Dropdown(
            list(range(1, MOST_SENTENCES + 1)), value=1, label="Sentences in the batch", elem_id="batch",
            info="one a line in the box above",
        )  # fmt: skip
    with gr.Row():
        names = [(shape.title, name) for name, shape in MODELS.items()]
        which = gr.Dropdown(names, value=model, label="Model", elem_id="model")
        weights = weight_menu(model)
    gr.Markdown("### What leaks <small>click a block to expose it</small>", elem_classes="ls-side")
    drawing = components.drawing(drawing_of(model, DEFAULT.slice, DEFAULT.layers), elem_id="drawing")
    with gr.Row():
        attack = gr.Dropdown(list(ATTACKS), value=DEFAULT.attack, label="Attack", elem_id="attack-name")
        budget = min(DEFAULT.seconds, limits.seconds)
        seconds = gr.Slider(1, limits.seconds, budget, step=1, label="Seconds", elem_id="seconds")
    about = gr.Markdown(ATTACKS[DEFAULT.attack].about, elem_id="about", elem_classes="ls-note")
    with gr.Accordion("Advanced", open=False, elem_id="advanced"):
        knows = gr.CheckboxGroup(["length", "label"], value=["length", "label"], label="The attacker is told")
        with gr.Row():
            seed = gr.Number(0, label="Seed", precision=0, minimum=0)
            scale = gr.Number(0.02, label="Scale of random weights", minimum=1e-3, maximum=1)
        groups, own = settings_controls()
    return Controls(
        sentence, said, go, stop, preset, label, how, dropout, frozen, batch, which, weights, drawing, attack, seconds,
        about, knows, seed, scale, groups, own,
    )  # fmt: skip


def connect_attack(controls: Controls, stage: gr.HTML, limits: Limits, device: str | None) -> None:
    """Attack and Stop."""

    def stream(*values: Any) -> Iterator[str]:
        """The run as JSON strings; what is wrong with the values is said on the stage too."""
        try:
            for message in told(experiment_of(values, limits, device)):
                yield json.dumps({**message, "run": message["run"] or secrets.token_hex(4)}, separators=(",", ":"))
        except ValueError as problem:
            yield json.dumps({"run": secrets.token_hex(4), "error": str(problem)})

    ticket = gr.Number(visible=False)
    running = ticket.change(
        stream, controls.values, stage, show_progress="hidden", concurrency_id=DEVICE, concurrency_limit=1,
        trigger_mode="multiple", api_visibility="private",
    )  # fmt: skip
    running.then(None, ticket, ticket, js=GONE_JS, api_visibility="private")
    gr.on(
        [controls.go.click, controls.sentence.submit], None, ticket, ticket, js=START_JS, cancels=[running],
        api_visibility="private",
    )  # fmt: skip
    controls.stop.click(None, js=STOP_JS, cancels=[running], api_visibility="private")


def connect_notes(controls: Controls, limits: Limits, device: str | None) -> None:
    """What the controls say of each other."""

    def note(*values: Any) -> str:
        try:
            return attack_note(experiment_of(values, limits, device))
        except ValueError as problem:
            return f"⚠ {problem}."

    def redrawn(model: str, drawing: str, frozen: bool) -> str:
        return drawing_of(model, *chosen_in(drawing), frozen)

    model, drawing, attack, batch = controls.model, controls.drawing, controls.attack, controls.batch
    dropout, frozen = controls.dropout, controls.frozen
    quick: dict[str, Any] = {
        "show_progress": "hidden", "api_visibility": "private", "queue": False, "trigger_mode": "always_last",
    }  # fmt: skip
    controls.preset.input(PRESETS.get, controls.preset, controls.sentence, **quick)
    gr.on(
        [controls.sentence.change, model.change], lambda text, model: sentence_note(limits, model, text),
        [controls.sentence, model], controls.said, **quick,
    )  # fmt: skip
    batch.input(resized, [controls.sentence, batch], controls.sentence, **quick)
    controls.sentence.change(lines_of, controls.sentence, batch, **quick)
    gr.on([dropout.change, frozen.change, batch.change], training_note, [dropout, frozen, batch], controls.how, **quick)
    gr.on([model.change, drawing.input, frozen.change], redrawn, [model, drawing, frozen], drawing, **quick)
    model.change(weight_menu, model, controls.weights, **quick)
    gr.on(
        [
            attack.change, drawing.change, controls.weights.change, controls.knows.change, dropout.change,
            frozen.change, batch.change,
        ],
        note, controls.values, controls.about, **quick,
    )  # fmt: skip
    attack.change(
        lambda name: [gr.Group(visible=name == own) for own in OWN_SETTINGS], attack, controls.groups, **quick
    )


def experiment_of(values: tuple[Any, ...], limits: Limits, device: str | None) -> Experiment:
    """The controls' values -> a checked experiment."""
    sentence, label, model, weights, scale, picked, attack, knows, seconds, seed, dropout, frozen, *own = values
    slice, layers = chosen_in(picked)
    fields = [(name, f.name) for name in OWN_SETTINGS for f in settings_of(ATTACKS[name])]
    settings = {field: value for (name, field), value in zip(fields, own, strict=True) if name == attack}
    labels, told = labels_for(label, sentence), ("length" in knows, "label" in knows)
    return experiment_from(
        limits, sentence, labels, model, weights, scale, slice, layers, attack, *told, seconds, seed, settings, dropout,
        frozen, device,
    )  # fmt: skip


def labels_for(choice: int | str, sentence: str) -> list[int]:
    """One label for all sentences of the batch, or both by turns."""
    if choice == TURNS:
        return [n % len(LABELS) for n in range(max(1, len(Experiment(sentence).sentences)))]
    return [choice]  # type: ignore[list-item]  # checked with all else that the browser sends


def sentence_note(limits: Limits, model: str, text: str) -> str:
    """The line under the box: how many tokens, or what is wrong, and where the text goes."""
    try:
        batch = check_batch(limits, outline(model), text)
    except ValueError as problem:
        return f"⚠ {problem}."
    tokens, unknown = sum(map(len, batch)), sum(sentence.count("[UNK]") for sentence in batch)
    strange = f" {unknown} of them are unknown to the model, which reads [UNK]." if unknown else ""
    several, stays = (f"{len(batch)} sentences, ", "They stay") if len(batch) > 1 else ("", "It stays")
    count = f"{several}{tokens} token{'s' * (tokens > 1)} (words or pieces of words)."
    return f"{count}{strange} {stays} in this run's memory: not logged, not kept."


def lines_of(text: str) -> int:
    """The batch size that the menu shows; of a text with too many lines, the largest that there is."""
    return min(max(len(Experiment(text).sentences), 1), MOST_SENTENCES)


def training_note(dropout: float, frozen: bool, batch: int) -> gr.Accordion:
    """The closed group still tells what is on in it."""
    return gr.Accordion(label=" · ".join([TRAINING, *training(dropout, frozen, batch)]))


def attack_note(experiment: Experiment) -> str:
    """What the chosen attack does; or, where trying it out is cheap, why it cannot work on what is exposed."""
    at_hand = experiment.model == "minilm" or (experiment.weights and experiment.weights.kind != "pretrained")
    try:
        if at_hand and count(all_pieces(outline(experiment.model))) < QUICK:
            set_up(experiment)
    except ValueError as problem:
        return f"⚠ {problem}."
    return ATTACKS[experiment.attack].about


def weight_menu(model: str) -> gr.Dropdown:
    """The kinds of weights; those that cannot be had here say so, and why once they are chosen."""
    kinds = [(f"{kind} (not here)" if unavailable(model, kind) else kind, kind) for kind in WEIGHTS]
    return gr.Dropdown(kinds, value=MODELS[model].default, label="Weights", elem_id="weights")


def settings_controls() -> tuple[list[gr.Group], list[Any]]:
    """A group of controls for each attack that has settings, built from its fields; only the chosen one shows."""
    groups, controls = [], []
    for name in OWN_SETTINGS:
        with gr.Group(visible=name == DEFAULT.attack) as group:
            for field in settings_of(ATTACKS[name]):
                controls.append(control_for(field.name, getattr(ATTACKS[name], field.name), field.metadata))
        groups.append(group)
    return groups, controls


def control_for(name: str, value: Any, bounds: Any) -> Any:
    title = name.replace("_", " ")
    if bounds["choices"]:
        return gr.Dropdown(list(bounds["choices"]), value=value, label=title, info=bounds["help"])
    if isinstance(value, bool):
        return gr.Checkbox(value, label=title, info=bounds["help"])
    digits = 0 if isinstance(value, int) else None
    return gr.Number(
        value, label=title, info=bounds["help"], minimum=bounds["low"], maximum=bounds["high"], precision=digits
    )
