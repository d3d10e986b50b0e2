"""What the controls say of each other."""

import json
from dataclasses import replace
from typing import Any

import gradio as gr

from demo.attacker.attacks import ATTACKS
from demo.client.secret import MOST_SENTENCES
from demo.runs.engine import Experiment, check, set_up
from demo.screen.messages import cost_of, title, training
from demo.turns import Over, at_most
from demo.ui.choices import check_batch, resized
from demo.ui.components import chosen_in, drawing_of
from demo.ui.computing import LENT
from demo.ui.controls import OWN_SETTINGS, TRAINING, Controls, experiment_of, weight_menu
from demo.ui.defense_controls import connect_defenses
from demo.ui.limits import Limits
from demo.victim.hub import PATIENCE
from demo.victim.models import MODELS, Weights, outline, unavailable
from demo.victim.slices import all_pieces, count

QUICK = 50e6  # parameters of models that take a training step in a moment
NOT_HERE = "is fetched once, when its first attack starts; its tokens can be counted then."
MOMENT = 1.0  # seconds that a note is worth
CHANGED_JS = "() => { window.leakscopeSentence?.changed(); }"
QUICKLY: dict[str, Any] = {  # how events run that answer at once
    "show_progress": "hidden",
    "api_visibility": "private",
    "queue": False,
    "trigger_mode": "always_last",
}
EACH = QUICKLY | {
    "trigger_mode": "multiple"
}  # for what is told with the event: Gradio forgets it of one that it puts off


def connect_notes(controls: Controls, shown: gr.HTML, limits: Limits, device: str | None) -> None:
    """What the controls say of each other."""

    def note(*values: Any) -> tuple[str, str]:
        try:
            return attack_note(experiment_of(values, limits, device))
        except ValueError as problem:
            return f"⚠ {problem}.", ""

    def asked(*values: Any) -> str:
        try:
            return json.dumps(described(experiment_of(values, limits, device)))
        except ValueError:  # said elsewhere
            return json.dumps({"title": "", "truth": []})

    def redrawn(model: str, drawing: str, frozen: bool) -> str:
        return drawing_of(model, *chosen_in(drawing), frozen)

    model, drawing, attack, batch = controls.model, controls.drawing, controls.attack, controls.batch
    dropout, frozen = controls.dropout, controls.frozen
    controls.sentence.change(None, js=CHANGED_JS, api_visibility="private")
    gr.on(
        [controls.sentence.change, model.change],
        lambda text, model: sentence_note(limits, model, text),
        [controls.sentence, model],
        controls.said,
        **QUICKLY,
    )
    batch.input(resized, [controls.sentence, batch], controls.sentence, **QUICKLY)
    controls.sentence.change(lines_of, controls.sentence, batch, **QUICKLY)
    gr.on(
        [dropout.change, frozen.change, batch.change], training_note, [dropout, frozen, batch], controls.how, **QUICKLY
    )
    gr.on([model.change, drawing.input, frozen.change], redrawn, [model, drawing, frozen], drawing, **QUICKLY)
    model.input(weight_menu, model, controls.weights, **QUICKLY)  # a link sets both
    choices = [
        attack.change,
        drawing.change,
        controls.weights.change,
        dropout.change,
        frozen.change,
        batch.change,
        *(control.change for control in controls.defending.values),
    ]
    gr.on(
        [*choices, controls.sentence.change, model.change, controls.scale.change],
        asked,
        controls.values,
        shown,
        **QUICKLY,
    )
    gr.on(
        [*choices, controls.knows.change], note, controls.values, [controls.about, controls.defending.cost], **QUICKLY
    )
    attack.change(
        lambda name: [gr.Group(visible=name == own) for own in OWN_SETTINGS], attack, controls.groups, **QUICKLY
    )
    connect_defenses(controls.defending, QUICKLY)


def sentence_note(limits: Limits, model: str, text: str) -> str:
    """The line under the box: how many tokens, or what is wrong, and where the text goes."""
    chosen = outline(model)
    try:
        batch = check_batch(limits, chosen, text)
    except ValueError as problem:
        return f"⚠ {problem}."
    if not chosen.reads:
        return f"{chosen.title} {NOT_HERE} Your text stays in this run's memory: not logged, not kept."
    tokens, unknown = sum(map(len, batch)), sum(sentence.count("[UNK]") for sentence in batch)
    strange = ""
    if unknown:
        which = f"{unknown} of them {'is' if unknown == 1 else 'are'} [UNK]"
        strange = (
            f" {which}: the model cannot read these characters, so nobody can tell from the gradient what they were."
        )
    several, stays = (f"{len(batch)} sentences, ", "They stay") if len(batch) > 1 else ("", "It stays")
    count = f"{several}{tokens} token{'s' * (tokens > 1)} (words or pieces of words)."
    return f"{count}{strange} {stays} in this run's memory: not logged, not kept."


def lines_of(text: str) -> int:
    """The batch size that the menu shows; of a text with too many lines, the largest that there is."""
    return min(max(len(Experiment(text).sentences), 1), MOST_SENTENCES)


def described(experiment: Experiment) -> dict[str, Any]:
    """What a run of the experiment would have for its title and its true tokens; nothing is loaded for it."""
    model, weights = outline(experiment.model), experiment.weights or Weights(MODELS[experiment.model].default)
    kind = weights.kind if weights.kind == "pretrained" else f"{weights.kind}({weights.scale:g})"
    named = replace(model, title=f"{model.title}, {kind}")
    read = experiment.sentences if model.reads else ()
    tokens = [token for sentence in read for token in model.tokens(model.inner(model.encode(sentence)))]
    return {"title": title(experiment, named), "truth": tokens}


def training_note(dropout: float, frozen: bool, batch: int) -> gr.Accordion:
    """The closed group still tells what is on in it."""
    return gr.Accordion(label=" · ".join([TRAINING, *training(dropout, frozen, batch)]))


def attack_note(experiment: Experiment) -> tuple[str, str]:
    """What the chosen attack does, and what the defenses cost; or, where trying it out is cheap, why it cannot work."""
    weights = experiment.weights.kind if experiment.weights else MODELS[experiment.model].default
    missing = unavailable(experiment.model, weights, PATIENCE)
    if missing:
        return f"⚠ {missing}.", ""
    at_hand = experiment.model == "minilm" or (experiment.weights and experiment.weights.kind != "pretrained")
    cost = ""
    try:
        if at_hand and not LENT and count(all_pieces(outline(experiment.model))) < QUICK:
            with at_most(MOMENT):
                case = set_up(experiment)
                cost = f"In this step, {cost_of(case.likeness)}." if experiment.defenses else ""
                check(experiment, case.leak)
    except Over:
        pass  # it takes longer to find out: the run will tell
    except ValueError as problem:
        return f"⚠ {problem}.", ""
    return ATTACKS[experiment.attack].about, cost
