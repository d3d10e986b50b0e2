"""Surveys as the screen is told of them: the map of leaks, and the sweep of a defense's strength.

Each report holds all that is known so far, so that none depends on another: the screen may miss some.
"""

import math
import secrets
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from demo.client.defenses import strength_of, told_of
from demo.runs.engine import Experiment
from demo.runs.surveys import Reading, survey
from demo.screen.messages import place as where
from demo.screen.messages import training
from demo.victim.models import MODELS, Weights, outline
from demo.victim.slices import matrices_of

Report = dict[str, Any]

GAP = 0.2  # seconds between two reports; also the longest that a stopped survey goes on
RECENT = 6  # readings that tell how long the next ones will take


def reports(
    title: str,
    experiments: Sequence[Experiment],
    gap: float = GAP,
    survey: Callable[[Sequence[Experiment]], Iterator[Reading]] = survey,
    earlier: Sequence[Report] = (),
) -> Iterator[Report]:
    """The survey as the screen sees it; closing the generator stops it. One that goes on has `earlier` rows."""
    done: list[Reading] = []
    model = outline(experiments[0].model, experiments[0].weights)
    about = {
        "run": secrets.token_hex(4),
        "title": title,
        "model": experiments[0].model,
        "layers": model.layers,
        "columns": {name: slice.short for name, slice in matrices_of(model).items()},
        "total": len(earlier) + len(experiments),
        "budget": experiments[0].seconds,
        "todo": [place(experiment) for experiment in experiments],
        "asked": asked(experiments[0]),
    }
    told = -float("inf")
    for reading in survey(experiments):
        if reading.done:
            done.append(reading)
        if reading.done or time.monotonic() - told >= gap:
            yield about | {
                "readings": [*earlier, *(row(one) for one in done)],
                "now": None if reading.done else row(reading),
                "left": left(done, len(experiments), experiments[0].seconds),
                "over": len(done) == len(experiments),
            }
            told = time.monotonic()


def survey_title(base: Experiment) -> str:
    """What all experiments of a survey have in common, in a line: MiniLM-L6 · dropout 0.1 · best."""
    how = training(base.client, outline(base.model), len(base.sentences))
    return " · ".join([MODELS[base.model].title, *how, *map(told_of, base.defenses), base.attack])


def sweep_title(base: Experiment) -> str:
    """The same, with what is exposed."""
    return f"{survey_title(base)} · {where(outline(base.model, base.weights), base.slice, base.layers)}"


def left(done: Sequence[Reading], total: int, budget: float) -> float | None:
    """Seconds to go: later places are harder, so each takes more than the latest did, and at most its budget."""
    if not done:
        return None
    recent = statistics.mean(reading.seconds for reading in done[-RECENT:])
    return round((total - len(done)) * math.sqrt(recent * budget), 1)


def place(experiment: Experiment) -> Report:
    """Where an experiment stands in the picture."""
    defended = [(told_of(defense), strength_of(defense)) for defense in experiment.defenses]
    text, strength = [*defended, *experiment.client.strengthened(), ("", None)][0]
    return {
        "slice": experiment.slice,
        "layer": experiment.layers[0] if experiment.layers else None,
        "defense": text,
        "strength": strength,
    }


def asked(experiment: Experiment) -> Report:
    """An experiment as plain values, so that the screen can ask for it again."""
    weights = experiment.weights or Weights(MODELS[experiment.model].default)
    return {
        "sentence": experiment.sentence,
        "labels": list(experiment.labels),
        "model": experiment.model,
        "weights": weights.kind,
        "scale": weights.scale,
        "slice": experiment.slice,
        "layers": list(experiment.layers),
        "attack": experiment.attack,
        "knows_length": experiment.knows_length,
        "knows_label": experiment.knows_label,
        "seconds": experiment.seconds,
        "seed": experiment.seed,
        "settings": dict(experiment.settings),
        **asdict(experiment.client),
        "defenses": {told_of(defense).partition("=")[0]: asdict(defense) for defense in experiment.defenses},
    }


def row(reading: Reading) -> Report:
    """A reading in whole percents, as the picture and the downloads show it."""
    return place(reading.experiment) | {
        "recover": round(100 * reading.recover_rate),
        "exact": reading.exact,
        "certified": reading.certified,
        "rouge1": round(100 * reading.rouge1),
        "seconds": round(reading.seconds, 1),
        "likeness": round(reading.likeness, 4),
        "parameters": reading.parameters,
        "share": round(100 * reading.parameter_share, 3),
        "text": reading.text,
        "reason": reading.reason,
    }
