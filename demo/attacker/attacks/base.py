"""What every attack is: a function from a `Leak` and a `Budget` to a stream of `Snapshot`s. Nothing else gets in."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from demo.attacker.attacks.objectives import UNNAMED, Objective
from demo.attacker.certificate import Certificate, certify, log_likelihood
from demo.attacker.evidence import Evidence
from demo.attacker.leak import Leak
from demo.victim.gradients import gradient_of
from demo.victim.model import Model

UNKNOWN_LENGTHS = "the lengths of the batch's sentences are unknown: tell the attacker"
UNKNOWN_LENGTH = (
    "the length is unknown, and nothing that leaks tells it (the last layer never does, and defenses can hide it): "
    "tell the attacker"
)


@dataclass(frozen=True)
class Budget:
    """How long an attack may run: whichever ends first."""

    seconds: float = 60.0
    steps: int = 1_000_000
    started: float = field(default_factory=time.perf_counter)
    clock: Callable[[], float] = time.perf_counter  # one that stands still while the attack has to wait, if it has to

    def elapsed(self) -> float:
        return self.clock() - self.started

    def spent(self) -> bool:
        return self.elapsed() >= self.seconds

    def over(self, step: int) -> bool:
        return step >= self.steps or self.spent()


@dataclass(frozen=True, eq=False)
class Candidates:
    """The words that lie nearest to the leaked span at one place, nearest first."""

    place: int
    ids: Tensor  # (few,)
    distances: Tensor  # (few,): 0 lies in the span, 1 is perpendicular to it


@dataclass(frozen=True)
class Branch:
    """A word that was tried after a prefix, in the tree of prefixes that a search on a decoder walks."""

    parent: int  # the number of the branch that it follows; 0 is the root, before the first word
    id: int  # the word
    number: int  # its own, from 1 on, where it lies in the span and lives on; 0: it sticks out, and is dead
    distance: float  # how far it sticks out
    chance: float  # that the attacked model itself gave it there, before the gradient was asked


@dataclass(frozen=True)
class Growth:
    """What a search on a decoder found out about the words after one prefix, since the last snapshot."""

    parent: int  # the branch whose followers were tried
    place: int  # in the sentence, where they stand
    tried: int  # how many words were tried there so far
    expected: Branch  # the word that the attacked model itself thought likeliest
    branches: tuple[Branch, ...]  # those that live, and a few that came nearest to it


@dataclass(frozen=True, eq=False)
class Snapshot:
    """An attack's state at one moment, in plain CPU tensors: it pickles, and refers to nothing."""

    step: int
    seconds: float
    ids: Tensor  # (tokens,): the guess now
    embeddings: Tensor  # (tokens, hidden): the dummy word vectors now
    confidence: Tensor  # (tokens,), 0 to 1: how sure the attack is of each token
    runners_up: Tensor  # (tokens, few) ids: what else it would say there
    objective: float  # what it minimises
    stage: str  # what it is doing, in a few words for people
    certificate: Certificate | None = None  # of this guess, where it was computed
    labels: tuple[int, ...] = ()  # those it assumes
    candidates: Candidates | None = None  # what it is choosing from, where it chooses place by place
    nats: float | None = None  # under known noise: how much likelier the guess makes the leak than the next best does
    meaning: Objective = UNNAMED  # of `objective`
    kept: Tensor | None = None  # (tokens, hidden) bool: which coordinates of each embedding dropout spared, it thinks
    growth: tuple[Growth, ...] = ()  # of the tree of prefixes, since the last snapshot
    lengths: tuple[int, ...] = ()  # of a batch's sentences, where the attack was not told and has found out

    @property
    def certified(self) -> bool:
        return self.certificate is not None and self.certificate.holds

    def in_order(self, order: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> "Snapshot":
        """The same with the batch's sentences in another order; sentence n stands from starts[n] to ends[n]."""
        places = torch.cat([torch.arange(starts[n], ends[n]) for n in order])
        moved = {name: getattr(self, name)[places] for name in ("ids", "embeddings", "confidence", "runners_up")}
        kept = self.kept[places] if self.kept is not None else None
        labels = tuple(self.labels[n] for n in order) if self.labels else ()
        lengths = tuple(self.lengths[n] for n in order) if self.lengths else ()
        return replace(self, **moved, kept=kept, labels=labels, lengths=lengths)


class Attack(Protocol):
    @property
    def about(self) -> str:
        """What it does, in a sentence for people."""

    def supports(self, leak: Leak) -> str | None:
        """None if this attack can work on such a leak, else the reason why not."""

    def run(self, leak: Leak, budget: Budget, seed: int) -> Iterator[Snapshot]:
        """Yields snapshots with rising steps; the last one is the result."""


def snapshot(
    model: Model,
    budget: Budget,
    step: int,
    ids: Tensor,
    objective: float,
    stage: str,
    embeddings: Tensor | None = None,
    confidence: Tensor | None = None,
    runners_up: Tensor | None = None,
    certificate: Certificate | None = None,
    labels: Sequence[int] = (),
    kept: Tensor | None = None,
    **more: Any,
) -> Snapshot:
    """A snapshot with everything detached; a discrete guess has its words' own vectors, and full confidence.

    `more` are its other fields, which hold no tensors of the attack's.
    """
    vectors = model.words[ids] if embeddings is None else embeddings
    sure = torch.ones(len(ids)) if confidence is None else confidence
    others = torch.empty(len(ids), 0, dtype=torch.long) if runners_up is None else runners_up
    guess, points, sure, others = (x.detach().cpu().clone() for x in (ids, vectors, sure, others))
    kept = kept.detach().cpu().clone() if kept is not None else None
    return Snapshot(
        step,
        budget.elapsed(),
        guess,
        points,
        sure,
        others,
        float(objective),
        stage,
        certificate,
        tuple(labels),
        kept=kept,
        **more,
    )


def weighed(leak: Leak, shot: Snapshot) -> Snapshot:
    """The same with its evidence: how much likelier it is than with its best runner-up anywhere, or two words swapped.

    A statement about known noise; without noise, certificates say more.
    """
    ids, labels = shot.ids.to(leak.model.device), shot.labels or leak.labels or (0,) * leak.batch
    inner = leak.model.inner_places(*(len(one) for one in leak.sentences(ids))).tolist()
    others = []
    for place, after in zip(inner, [*inner[1:], 0], strict=True):
        if shot.runners_up.shape[1]:
            others.append(ids.index_copy(0, ids.new_tensor([place]), shot.runners_up[place, :1].to(ids)))
        if after == place + 1:
            others.append(ids[[*range(place), after, place, *range(after + 1, len(ids))]])
    if leak.batch == 1 and not leak.sparse:
        chances = Evidence(leak, labels, len(ids)).nats(torch.stack([ids, *others])).tolist()
    else:
        chances = [log_likelihood(leak, leak.sentences(one), labels) for one in (ids, *others)]
    unlike = [chance for one, chance in zip(others, chances[1:], strict=True) if not torch.equal(one, ids)]
    return replace(shot, nats=chances[0] - max(unlike)) if unlike else shot  # nothing to be likelier than


def labels_of(leak: Leak) -> list[int]:
    """The labels one sentence may have: the one that was told, or read off the classifier's bias, or all."""
    if leak.labels is not None:
        return [leak.labels[0]]
    bias = leak.gradient.get("classifier.bias")
    if bias is not None:  # iDLG: softmax minus one-hot is negative only at the true label
        return [int(bias.argmin())]
    return list(range(leak.model.net.labels or 1))


def best_certificate(leak: Leak, ids: Tensor) -> tuple[Certificate | None, tuple[int, ...]]:
    """The guess's certificate, where there can be one, and the labels that explain the leak best."""
    if leak.batch > 1:
        sentences = leak.sentences(ids)
        labels = solved_labels(leak, sentences)
        return certify(leak, sentences, labels), labels
    proofs = [(certify(leak, [ids], [label]), (label,)) for label in labels_of(leak)]
    return min(proofs, key=lambda pair: pair[0].residual if pair[0] else 0)


def solved_labels(leak: Leak, sentences: Sequence[Tensor]) -> tuple[int, ...]:
    """The labels of a batch's sentences: with two classes, a sentence's gradients under both lie on one line, on
    opposite sides. So the leak is a sum of the sentences' gradients, and the signs of the coefficients are the labels.
    """
    piece = min(
        (piece for piece in leak.pieces if piece.kind == "weight" and piece.size >= 64), key=lambda piece: piece.size
    )
    ours = [gradient_of(leak.model, [ids], [0], [piece])[piece.name].flatten() for ids in sentences]
    matrix, leaked = torch.stack(ours, dim=1).cpu().double(), leak.gradient[piece.name].flatten().cpu().double()
    coefficients = torch.linalg.lstsq(matrix, leaked[:, None], driver="gelsd").solution[:, 0]
    return tuple(0 if coefficient > 0 else 1 for coefficient in coefficients.tolist())
