"""One generator for everything: `run(experiment)` yields the frames that the screen, the benchmark and the tests use.

for frame in run(Experiment("the cat sat on the mat", slice="query", layers=(2,))):
    print(frame.text, frame.scores.position_accuracy)
"""

from collections.abc import Iterator
from dataclasses import dataclass

from demo.attacks import ATTACKS, Attack, Budget, Snapshot
from demo.attacks.base import with_settings
from demo.leak import Leak, Secret, share
from demo.metrics import Scores, score
from demo.models import MODELS, Model, Weights, load
from demo.slices import count, select
from demo.slices import share as share_of


@dataclass(frozen=True)
class Experiment:
    """The whole state of a run; two equal ones give equal results."""

    sentence: str
    label: int = 1
    model: str = "minilm"
    weights: Weights | None = None  # None: the model's own default
    slice: str = "query"
    layers: tuple[int, ...] = (2,)
    attack: str = "best"
    knows_length: bool = True
    knows_label: bool = True
    seconds: float = 60.0
    steps: int = 1_000_000
    seed: int = 0
    device: str | None = None
    settings: tuple[tuple[str, float | str | bool], ...] = ()  # changes to the attack's own fields


@dataclass(frozen=True, eq=False)
class Case:
    """An experiment set up: both sides of the wall, for whoever shows or scores it. Attacks get only `leak`."""

    model: Model
    secret: Secret
    leak: Leak
    parameters: int
    parameter_share: float


@dataclass(frozen=True, eq=False)
class Frame:
    """A snapshot with its scores. `best_recover_rate` is TAG's: the best of all iterations so far."""

    snapshot: Snapshot
    text: str
    scores: Scores
    best_recover_rate: float

    @property
    def certified(self) -> bool:
        certificate = self.snapshot.certificate
        return certificate is not None and certificate.holds


def set_up(experiment: Experiment) -> Case:
    """Loads the model, takes the client's step and shares the slice; errors name the input that was wrong."""
    if experiment.attack not in ATTACKS:
        raise ValueError(f"unknown attack {experiment.attack!r}: choose one of {', '.join(ATTACKS)}")
    if experiment.model in MODELS and not experiment.sentence.strip():
        raise ValueError("the sentence is empty: give at least one word")
    if experiment.seconds <= 0 or experiment.steps < 1:
        raise ValueError("the budget is empty: give more than 0 seconds and at least 1 step")
    model = load(experiment.model, experiment.weights, experiment.device)
    secret = Secret(model.encode(experiment.sentence), experiment.label)
    pieces = select(model, experiment.slice, experiment.layers)
    leak = share(model, secret, pieces, experiment.knows_length, experiment.knows_label)
    reason = attack_of(experiment).supports(leak)
    if reason:
        raise ValueError(f"{experiment.attack} cannot attack this: {reason}")
    return Case(model, secret, leak, count(pieces), share_of(model, pieces))


def attack_of(experiment: Experiment) -> Attack:
    return with_settings(ATTACKS[experiment.attack], experiment.attack, experiment.settings)


def run(experiment: Experiment, case: Case | None = None) -> Iterator[Frame]:
    """The attack's progress, frame by frame; closing the generator stops it."""
    case = case or set_up(experiment)
    budget = Budget(experiment.seconds, experiment.steps)
    truth, best = case.secret.ids.cpu(), 0.0
    for snapshot in attack_of(experiment).run(case.leak, budget, experiment.seed):
        scores = score(case.model, truth, snapshot.ids)
        best = max(best, scores.recover_rate)
        yield Frame(snapshot, case.model.text(snapshot.ids), scores, best)
