"""Several experiments as one question: where does a model leak, and how strong must a defense be?

for reading in survey(cells(Experiment("the cat sat on the mat", seconds=20))):
    if reading.done:
        print(reading.experiment.slice, reading.experiment.layers, reading.recover_rate)
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from demo.client.defenses import parse
from demo.runs.engine import Case, Experiment, Frame, run, set_up
from demo.turns import Pause, in_turns
from demo.victim.models import outline
from demo.victim.slices import matrices_of

STRENGTHS: dict[str, tuple[float | str, ...]] = {  # from weak to strong, around where the attacks give up
    "noise": (1e-7, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 1e-2, 0.1),
    "prune": (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999),
    "mask": (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99),
    "round": ("fp16", "int8"),
    "average": (1, 2, 3, 4, 5, 6, 7, 8),
}


@dataclass(frozen=True)
class Reading:
    """How far one experiment has come; `done` where it is over."""

    experiment: Experiment
    done: bool = False
    recover_rate: float = 0.0
    exact: bool = False
    certified: bool = False
    rouge1: float = 0.0
    seconds: float = 0.0
    likeness: float = 1.0  # what the defenses cost: the cosine between the shared and the clean gradient
    parameters: int = 0
    parameter_share: float = 0.0
    text: str = ""
    reason: str = ""  # why it could not be attacked


def cells(base: Experiment) -> Iterator[Experiment]:
    """Every place of the model that may leak alone, the quick ones first: the embeddings, then layer by layer."""
    model = outline(base.model, base.weights)
    yield replace(base, slice="embeddings", layers=())
    for layer in range(model.layers):
        for matrix in matrices_of(model):
            yield replace(base, slice=matrix, layers=(layer,))
    yield replace(base, slice="head", layers=())


def sweep(base: Experiment, defense: str, strengths: Sequence[float | str]) -> Iterator[Experiment]:
    """The same under one defense alone, once for each strength."""
    for strength in strengths:
        yield replace(base, defenses=(parse(f"{defense}={strength}"),))


def survey(experiments: Iterable[Experiment]) -> Iterator[Reading]:
    """One after the other: a reading for each frame, so that closing it stops at once, and one that is `done`."""
    for experiment in experiments:
        reading = Reading(experiment)
        try:
            for reading in readings(experiment):
                yield reading
            yield replace(reading, done=True)
        except ValueError as problem:  # this one cannot be had; the others can
            yield replace(reading, done=True, reason=str(problem))


def readings(experiment: Experiment) -> Iterator[Reading]:
    """How far one experiment has come, from before its set-up on."""
    reading = Reading(experiment)
    yield reading
    for case in in_turns(lambda: map(set_up, [experiment])):
        if isinstance(case, Pause):
            yield reading
            continue
        reading = replace(
            reading, likeness=case.likeness, parameters=case.parameters, parameter_share=case.parameter_share
        )
        for frame in run(experiment, case):
            reading = replace(
                reading,
                recover_rate=frame.scores.recover_rate,
                exact=frame.scores.exact,
                certified=frame.certified,
                rouge1=frame.scores.rouge1,
                seconds=frame.snapshot.seconds,
                text=told_apart(case, frame),
            )
            yield reading


def told_apart(case: Case, frame: Frame) -> str:
    """What was read, a sentence a line; of several clients, also whose it is."""
    if case.clients == 1:
        return frame.text
    return "\n".join(f"{who}: {text}" for who, text in zip(case.whose, frame.texts, strict=True))
