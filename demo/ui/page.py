"""The page: the client's controls on the left, the attacker's stage on the right, and what happens between them."""

import json
import secrets
import threading
from collections.abc import Iterator
from typing import Any, Literal

import gradio as gr

from demo.attacks import ATTACKS
from demo.attacks.base import settings_of
from demo.engine import Experiment, set_up
from demo.messages import messages
from demo.models import MODELS, load, outline, unavailable
from demo.slices import all_pieces, count
from demo.ui import components
from demo.ui.choices import DEFAULT, LABELS, PRESETS, WEIGHTS, Limits, check_sentence, experiment_from
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
DEVICE = "attack"  # one running attack per device: page and API wait in the same line
QUICK = 50e6  # parameters of models that take a training step in a moment
OWN_SETTINGS = tuple(name for name, attack in ATTACKS.items() if settings_of(attack))


def build(limits: Limits, model: str = DEFAULT.model, device: str | None = None) -> gr.Blocks:
    """The whole app; `launch()` of the result serves it."""

    def attack_page(*values: Any) -> Iterator[str]:
        """Streams the run to the stage, a JSON string a message; what is wrong is said there too."""
        try:
            for message in messages(from_page(values)):
                yield json.dumps(message, separators=(",", ":"))
        except ValueError as problem:
            yield json.dumps({"run": secrets.token_hex(4), "error": str(problem)})

    def note_page(*values: Any) -> str:
        try:
            return attack_note(from_page(values))
        except ValueError as problem:
            return f"⚠ {problem}."

    def from_page(values: tuple[Any, ...]) -> Experiment:
        sentence, label, model, weights, scale, picked, attack, knows, seconds, seed, *own = values
        slice, layers = chosen_in(picked)
        fields = [(name, f.name) for name in OWN_SETTINGS for f in settings_of(ATTACKS[name])]
        settings = {field: value for (name, field), value in zip(fields, own, strict=True) if name == attack}
        return experiment_from(
            limits, sentence, label, model, weights, scale, slice, layers, attack, "length" in knows,
            "label" in knows, seconds, seed, settings, device,
        )  # fmt: skip

    def attack(
        sentence: str,
        model: Literal[tuple(MODELS)] = DEFAULT.model,  # type: ignore[valid-type]
        slice: str = DEFAULT.slice,
        layers: list[int] = list(DEFAULT.layers),  # noqa: B006 (gradio reads the default, nobody changes it)
        attack: Literal[tuple(ATTACKS)] = "best",  # type: ignore[valid-type]
        label: int = 1,
        weights: str | None = None,
        scale: float = 0.02,
        knows_length: bool = True,
        knows_label: bool = True,
        seconds: float = 60,
        seed: int = 0,
        settings: dict[str, Any] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Attacks the gradient of one sentence and streams the reconstruction.

        Every message is a dict with the run's id and a `frame` (tokens, marks, confidence, points, scores); the first
        ones also hold `start` (the true tokens and points), the last one `end` (the verdict). Numbers out of range are
        clamped; anything else that is wrong is refused with the reason.

        Args:
            sentence: the client's private sentence, in memory for the run only
            model: minilm, transformer, tinybert4, tinybert6, bert-base or bert-large
            slice: which part of the gradient is exposed: all, encoder, layer, qkv, query, key, value,
                attention-output, ffn-in, ffn-out, head or embeddings
            layers: of which layers, from 0, where the slice is a choice of layers
            attack: best, certified, span, rows, cosine, tag or dlg
            label: the client's label, 0 or 1
            weights: pretrained, normal or uniform; None for the model's own default
            scale: sigma of normal, range of uniform weights
            knows_length: whether the attacker is told the number of tokens
            knows_label: whether the attacker is told the label
            seconds: the attack's budget
            seed: of everything that the attack draws at random
            settings: changes to the attack's own settings, e.g. {"patience": 5}
        """
        try:
            experiment = experiment_from(
                limits, sentence, label, model, weights, scale, slice, layers, attack, knows_length, knows_label,
                seconds, seed, settings or {}, device,
            )  # fmt: skip
            yield from messages(experiment)
        except ValueError as problem:
            raise gr.Error(str(problem), print_exception=False) from None

    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        gr.Markdown(INTRO, elem_classes="ls-intro")
        with gr.Row(elem_classes="ls-columns"):
            with gr.Column(scale=2, min_width=340, elem_classes="ls-client"):
                gr.Markdown("### The client <small>private</small>", elem_classes="ls-side")
                sentence = gr.Textbox(
                    DEFAULT.sentence, label="The secret sentence", lines=2, max_lines=4, elem_id="sentence"
                )
                said = gr.Markdown(
                    sentence_note(limits, model, DEFAULT.sentence), elem_id="said", elem_classes="ls-note"
                )
                with gr.Row(elem_classes="ls-actions"):
                    go = gr.Button("Attack", variant="primary", elem_id="go")
                    stop = gr.Button("Stop", elem_id="stop")
                with gr.Row():
                    preset = gr.Dropdown(list(PRESETS), value=None, label="Examples", elem_id="preset")
                    label = gr.Radio(LABELS, value=DEFAULT.label, label="Label")
                with gr.Row():
                    which = gr.Dropdown(
                        [(shape.title, name) for name, shape in MODELS.items()],
                        value=model,
                        label="Model",
                        elem_id="model",
                    )
                    weights = gr.Dropdown(
                        weight_choices(model), value=MODELS[model].default, label="Weights", elem_id="weights"
                    )
                gr.Markdown("### What leaks <small>click a block to expose it</small>", elem_classes="ls-side")
                drawing = components.drawing(drawing_of(model, DEFAULT.slice, DEFAULT.layers), elem_id="drawing")
                with gr.Row():
                    name = gr.Dropdown(list(ATTACKS), value=DEFAULT.attack, label="Attack", elem_id="attack-name")
                    seconds = gr.Slider(
                        1,
                        limits.seconds,
                        min(DEFAULT.seconds, limits.seconds),
                        step=1,
                        label="Seconds, at most",
                        elem_id="seconds",
                    )
                about = gr.Markdown(ATTACKS[DEFAULT.attack].about, elem_id="about", elem_classes="ls-note")
                with gr.Accordion("Advanced", open=False, elem_id="advanced"):
                    knows = gr.CheckboxGroup(
                        ["length", "label"], value=["length", "label"], label="The attacker is told"
                    )
                    with gr.Row():
                        seed = gr.Number(0, label="Seed", precision=0, minimum=0)
                        scale = gr.Number(0.02, label="Scale of random weights", minimum=1e-3, maximum=1)
                    groups, own = settings_controls()
            with gr.Column(scale=3, min_width=340, elem_classes="ls-attacker"):
                gr.Markdown("### The attacker <small>sees only what glows</small>", elem_classes="ls-side")
                stage = components.stage(elem_id="stage")

        ticket = gr.Number(visible=False)  # a new one starts a run: so that a click can first cancel the run before
        values = [sentence, label, which, weights, scale, drawing, name, knows, seconds, seed, *own]
        running = ticket.change(
            attack_page, values, stage, show_progress="hidden", concurrency_id=DEVICE, concurrency_limit=1,
            trigger_mode="multiple", api_visibility="private",
        )  # fmt: skip
        running.then(None, ticket, ticket, js=GONE_JS, api_visibility="private")
        gr.on(
            [go.click, sentence.submit], None, ticket, ticket, js=START_JS, cancels=[running], api_visibility="private"
        )
        stop.click(None, js=STOP_JS, cancels=[running], api_visibility="private")
        gr.api(attack, api_name="attack", concurrency_id=DEVICE, concurrency_limit=1)

        quick: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "queue": False}
        preset.input(PRESETS.get, preset, sentence, **quick)
        sentence.change(lambda text, model: sentence_note(limits, model, text), [sentence, which], said, **quick)
        which.change(
            lambda model, drawing: (drawing_of(model, *chosen_in(drawing)), weight_menu(model)),
            [which, drawing], [drawing, weights], **quick,
        )  # fmt: skip
        drawing.input(lambda model, drawing: drawing_of(model, *chosen_in(drawing)), [which, drawing], drawing, **quick)
        gr.on(
            [name.change, drawing.change, which.change, knows.change],
            note_page, values, about, **quick,
        )  # fmt: skip
        name.change(lambda name: [gr.Group(visible=name == own) for own in OWN_SETTINGS], name, groups, **quick)
    threading.Thread(target=load, args=(model, None, device), daemon=True).start()  # so that the first click is warm
    return page


def sentence_note(limits: Limits, model: str, sentence: str) -> str:
    """The line under the box: how many tokens, or what is wrong, and where the sentence goes."""
    try:
        tokens = check_sentence(limits, outline(model), sentence)
    except ValueError as problem:
        return f"⚠ {problem}."
    unknown = outline(model).tokens(outline(model).encode(sentence)).count("[UNK]")
    strange = f" {unknown} of them are unknown to the model, which reads [UNK]." if unknown else ""
    count = f"{tokens} token{'s' * (tokens > 1)} (words or pieces of words)."
    return f"{count}{strange} It stays in this run's memory: not logged, not kept."


def attack_note(experiment: Experiment) -> str:
    """What the chosen attack does; or, where trying it out is cheap, why it cannot work on what is exposed."""
    try:
        if count(all_pieces(outline(experiment.model))) < QUICK:
            set_up(experiment)
    except ValueError as problem:
        return f"⚠ {problem}."
    return ATTACKS[experiment.attack].about


def weight_choices(model: str) -> list[tuple[str, str]]:
    choices = []
    for kind in WEIGHTS:
        reason = unavailable(model, kind) if kind == "pretrained" and model != "minilm" else None
        choices.append((f"{kind} (not here)" if reason else kind, kind))
    return choices


def weight_menu(model: str) -> gr.Dropdown:
    return gr.Dropdown(weight_choices(model), value=MODELS[model].default)


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
