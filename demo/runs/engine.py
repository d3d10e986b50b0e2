"""One generator for everything: `run(experiment)` yields the frames that the screen, the benchmark and the tests use.

for frame in run(Experiment("the cat sat on the mat", slice="query", layers=(2,))):
    print(frame.text, frame.scores.position_accuracy)
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from demo.attacker.attacks import ATTACKS, Attack, Budget, Snapshot, current
from demo.attacker.attacks.base import snapshot, weighed
from demo.attacker.evidence import nats_of
from demo.attacker.leak import Leak
from demo.client.client import PLAIN, Client
from demo.client.secret import Secret, among_strangers
from demo.client.share import share
from demo.runs.metrics import Scores, mask_accuracy, matched, score_each, together
from demo.settings import with_settings
from demo.turns import Pause, in_turns, tick
from demo.victim.gradients import Defense, likeness
from demo.victim.models import MODELS, Model, Weights, load
from demo.victim.slices import count, select
from demo.victim.slices import share as share_of

WEIGHING = 0.1  # of the budget is kept for weighing the result against its neighbours,
LONGEST_WEIGHING = 3.0  # at most so many seconds


@dataclass(frozen=True)
class Experiment:
    """The whole state of a run; two equal ones give equal results."""

    sentence: str  # a batch: one sentence a line
    labels: tuple[int, ...] = (1,)  # one for each sentence, or one for all
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
    client: Client = PLAIN  # how it trains
    defenses: tuple[Defense, ...] = ()  # what the client does to its gradient before it shares it, in this order

    def __post_init__(self) -> None:
        object.__setattr__(self, "attack", current(self.attack))

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(line.strip() for line in self.sentence.splitlines() if line.strip())

    @property
    def covered(self) -> bool:
        """Whether what is shared is another gradient than that of the client's own sentences."""
        return bool(self.defenses or self.client.companions)


@dataclass(frozen=True, eq=False)
class Case:
    """An experiment set up: both sides of the wall, for whoever shows or scores it. Attacks get only `leak`."""

    model: Model
    secret: Secret
    leak: Leak
    parameters: int
    parameter_share: float
    everyone: Secret  # of all clients whose gradients are averaged, ours first: any of their sentences is a leak
    likeness: float = 1.0  # the cosine between what is shared and what it would be without defenses
    nats: float | None = None  # under known noise: how much likelier the truth makes the leak than nothing does

    @property
    def clients(self) -> int:
        return len(self.everyone.sentences) if len(self.everyone.sentences) > len(self.secret.sentences) else 1

    @property
    def whose(self) -> list[str]:
        """Whose sentence each is, or which one of ours; nothing where there is only one."""
        several = range(2, len(self.everyone.sentences) + 1)
        if self.clients > 1:
            return ["yours", *(f"client {n}" for n in several)]
        return ["sentence 1", *(f"sentence {n}" for n in several)] if several else []


@dataclass(frozen=True, eq=False)
class Frame:
    """A snapshot with its scores, the sentences in the order of the true ones they are most like, ours first."""

    snapshot: Snapshot
    texts: tuple[str, ...]  # of each sentence
    scores: Scores  # over all clients' sentences
    each: tuple[Scores, ...]  # of every sentence
    own: Scores  # over our own client's sentences: the same, unless clients are averaged
    best_recover_rate: float  # TAG's: the best of all iterations so far, of our own sentences
    masks_right: Tensor | None = None  # (tokens,): the share of each embedding's coordinates told right as kept or not

    @property
    def text(self) -> str:
        return "\n".join(self.texts)

    @property
    def certified(self) -> bool:
        return self.snapshot.certified


def set_up(experiment: Experiment) -> Case:
    """Loads the model, takes the client's step and shares the slice; errors name the input that was wrong.

    `in_turns(lambda: map(set_up, [experiment]))` does the same and says meanwhile what it is doing.
    """
    if experiment.attack not in ATTACKS:
        raise ValueError(f"unknown attack {experiment.attack!r}: choose one of {', '.join(ATTACKS)}")
    if experiment.model in MODELS and not experiment.sentences:
        raise ValueError("the sentence is empty: give at least one word")
    if experiment.seconds <= 0 or experiment.steps < 1:
        raise ValueError("the budget is empty: give more than 0 seconds and at least 1 step")
    tick("loading the model")
    client = experiment.client
    model = load(experiment.model, experiment.weights, experiment.device).told_by(client.task)
    secret = secret_of(experiment, model)
    pieces = select(model, experiment.slice, experiment.layers, client.frozen_embeddings)
    told = experiment.knows_length, experiment.knows_label
    attack_of(experiment)  # its settings may be wrong
    tick("taking the client's training step")
    leak = share(model, secret, pieces, *told, experiment.defenses, experiment.seed, client.companions)
    everyone = among_strangers(model, secret, client.companions, experiment.seed)
    case = Case(model, secret, leak, count(pieces), share_of(model, pieces), everyone)
    if not experiment.covered:
        return case
    clean = share(model, secret, pieces).gradient
    nats = nats_of(leak, clean, secret.labels, len(secret.ids))
    return replace(case, likeness=likeness(leak.gradient, clean), nats=nats)


def secret_of(experiment: Experiment, model: Model) -> Secret:
    """The client's side of an experiment."""
    ids, labels = [model.encode(sentence) for sentence in experiment.sentences], experiment.labels
    if len(labels) not in (1, len(ids)):
        raise ValueError(f"{len(labels)} labels for {len(ids)} sentences: give one for each, or one for all")
    labels = labels if len(labels) == len(ids) else labels * len(ids)
    rate = experiment.client.settled(model.net).dropout
    return Secret.of(model, ids, labels, rate or 0.0, experiment.seed)


def attack_of(experiment: Experiment) -> Attack:
    return with_settings(ATTACKS[experiment.attack], experiment.attack, experiment.settings)


def run(
    experiment: Experiment, case: Case | None = None, clock: Callable[[], float] = time.perf_counter
) -> Iterator[Frame]:
    """The attack's progress, frame by frame, at least one a second; closing the generator stops it.

    While an attack computes and has nothing new, its last guess is shown again, with the time that has passed.
    """
    case = case or set_up(experiment)
    budget, best = Budget(experiment.seconds, experiment.steps, clock(), clock), 0.0
    leak, last = case.leak, blank(case, budget)
    for news in in_turns(lambda: attacking(experiment, leak, budget), budget.spent):
        last = still(last, budget, news.doing) if isinstance(news, Pause) else news
        frame = scored(case, last, best)
        best = frame.best_recover_rate
        yield frame
    if not last.step or last.seconds < experiment.seconds <= budget.elapsed():  # it was ended in the midst of something
        yield scored(case, still(last, budget, "time is up"), best)


def attacking(experiment: Experiment, leak: Leak, budget: Budget) -> Iterator[Snapshot]:
    """The attack, and what can be said of its result; or a refusal where it cannot work."""
    check(experiment, leak)
    kept = kept_for_weighing(leak, budget.seconds)
    shot = None
    for shot in attack_of(experiment).run(leak, replace(budget, seconds=budget.seconds - kept), experiment.seed):
        yield shot
    if kept and shot is not None:
        tick("weighing the guess against its neighbours")
        yield replace(weighed(leak, shot), seconds=budget.elapsed())


def kept_for_weighing(leak: Leak, seconds: float) -> float:
    """Of a budget; nothing unless there is noise, and noise alone, as only what that leaves can be weighed."""
    return min(WEIGHING * seconds, LONGEST_WEIGHING) if leak.veiled and not leak.dropout else 0.0


def check(experiment: Experiment, leak: Leak) -> None:
    """Raises a ValueError with the reason where the chosen attack cannot work on this leak."""
    reason = attack_of(experiment).supports(leak)
    if reason:
        raise ValueError(f"{experiment.attack} cannot attack this: {reason}")


def blank(case: Case, budget: Budget) -> Snapshot:
    """What is known before the first guess: nothing but the length, where it was told."""
    lengths = case.leak.lengths or (3,) * case.leak.batch
    ids = case.model.blank(*lengths)
    sure = torch.zeros(len(ids))
    return snapshot(case.model, budget, 0, ids, math.inf, "getting ready", confidence=sure, lengths=lengths)


def still(last: Snapshot, budget: Budget, doing: str) -> Snapshot:
    """The same guess later, while the attack computes on."""
    return replace(last, seconds=budget.elapsed(), stage=doing or last.stage, candidates=None, growth=())


def scored(case: Case, snapshot: Snapshot, best: float) -> Frame:
    """The snapshot beside the truth."""
    truth, guess = [ids.cpu() for ids in case.everyone.sentences], case.leak.sentences(snapshot.ids, snapshot.lengths)
    if len(guess) > 1:
        ends = torch.tensor([len(ids) for ids in guess]).cumsum(0).tolist()
        snapshot = snapshot.in_order(matched(case.model, truth, guess), [0, *ends[:-1]], ends)
        guess = case.leak.sentences(snapshot.ids, snapshot.lengths)
    each, ours = score_each(case.model, truth, guess), len(case.secret.sentences)
    own = together(case.model, each[:ours], truth[:ours])
    right = None
    if snapshot.kept is not None and len(snapshot.ids) == len(case.everyone.ids):
        right = mask_accuracy(true_masks(case.everyone, snapshot.kept), snapshot.kept)
    texts = tuple(case.model.text(ids) for ids in guess)
    return Frame(snapshot, texts, together(case.model, each, truth), each, own, max(best, own.recover_rate), right)


def true_masks(secret: Secret, like: Tensor) -> Tensor:
    """(tokens, hidden) bool: which coordinates of each embedding the client's dropout kept."""
    masks = [masks["embedding"][0] for masks in secret.masks if "embedding" in masks]  # some drop out attention alone
    return torch.cat(masks).cpu() > 0 if masks else torch.ones_like(like)
