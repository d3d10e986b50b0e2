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
from demo.ui.client_controls import client_from, connect_client
from demo.ui.computing import LENT
from demo.ui.controls import OWN_SETTINGS, TRAINING, Controls, experiment_of, weight_menu
from demo.ui.defense_controls import connect_defenses
from demo.ui.drawing import chosen_in, drawing_of
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

    attack = controls.attack
    choices = [
        attack.change,
        controls.drawing.change,
        controls.weights.change,
        *(control.change for control in controls.client.values()),
        controls.batch.change,
        *(control.change for control in controls.defending.values),
    ]
    _connect_sentence(controls, limits)
    _connect_training(controls)
    gr.on(
        [*choices, controls.sentence.change, controls.model.change, controls.scale.change],
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


def _connect_sentence(controls: Controls, limits: Limits) -> None:
    """What is said under the box, and how many lines it has."""
    sentence, model, batch = controls.sentence, controls.model, controls.batch
    sentence.change(None, js=CHANGED_JS, api_visibility="private")
    gr.on(
        [sentence.change, model.change],
        lambda text, model: sentence_note(limits, model, text),
        [sentence, model],
        controls.said,
        **QUICKLY,
    )
    batch.input(resized, [sentence, batch], sentence, **QUICKLY)
    sentence.change(lines_of, sentence, batch, **QUICKLY)


def _connect_training(controls: Controls) -> None:
    """How the client trains stands in the closed group's title, and the drawing follows it."""

    def redrawn(model: str, drawing: str, *trained: Any) -> str:
        try:
            return drawing_of(model, *chosen_in(drawing), client_from(trained))
        except ValueError:  # said elsewhere
            return drawing

    model, drawing, batch = controls.model, controls.drawing, controls.batch
    trained = [*controls.client.values()]
    retrained = [control.change for control in trained]
    gr.on([*retrained, batch.change], training_note, [model, batch, *trained], controls.how, **QUICKLY)
    gr.on([model.change, drawing.input, *retrained], redrawn, [model, drawing, *trained], drawing, **QUICKLY)
    connect_client(controls.client, model, controls.label, QUICKLY)
    model.input(weight_menu, model, controls.weights, **QUICKLY)  # a link sets both


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


def training_note(model: str, batch: int, *trained: Any) -> gr.Accordion:
    """The closed group still tells what is on in it."""
    try:
        told = training(client_from(trained), outline(model), batch)
    except ValueError as problem:
        told = [f"⚠ {problem}"]
    return gr.Accordion(label=" · ".join([TRAINING, *told]))


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
                cost = f"In this step, {cost_of(case.likeness)}." if experiment.covered else ""
                check(experiment, case.leak)
    except Over:
        pass  # it takes longer to find out: the run will tell
    except ValueError as problem:
        return f"⚠ {problem}.", ""
    return ATTACKS[experiment.attack].about, cost
