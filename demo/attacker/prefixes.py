"""Decoders look back only: what enters a matrix at a place follows from the words up to there, exactly, at any depth.
A prefix can be checked by itself: the right word's vector lies in the leaked span, every other sticks out.

    judge = PrefixJudge(leak, first_view(leak))
    judge.look(path, words)  # how far each of these words, next after the path, sticks out of the span
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from demo.attacker.leak import Leak
from demo.attacker.prefix_views import LIES_IN, PrefixView, outside
from demo.turns import ticking
from demo.victim.anatomy import Anatomy
from demo.victim.causal import Causal
from demo.victim.rough import rough
from demo.victim.settled import Settled

DEPENDENT = 1e-7  # a vector that sticks out of the settled ones by less is one of them again
NEARLY_IN = 1e-2  # the same in bfloat16: measured 1e-5 to 1e-4
ROUGHLY = 12  # words that a rough check leaves for the exact one
FEW = 16  # words that are checked exactly at once
ROWS = 512  # words put through the layers together


@dataclass(frozen=True, eq=False)
class Path:
    """A prefix that passed: its words, what is kept of them, and the directions that they take up of the span."""

    ids: tuple[int, ...]
    settled: Settled | None
    taken: Tensor  # (width, words that tell), orthonormal


@dataclass(frozen=True, eq=False)
class Look:
    """Words that were tried after a path."""

    ids: Tensor  # (words,)
    vectors: Tensor  # (words, width): what the matrix reads of each, roughly where they were many
    outside: Tensor  # (words,): the share of its squared length that sticks out of the span
    passing: tuple[int, ...]  # those that lie in it and take up a direction of their own, best first


class PrefixJudge:
    """Puts words after a path through the layers, and looks how far they stick out."""

    def __init__(self, leak: Leak, view: PrefixView) -> None:
        net = leak.model.net
        assert isinstance(net, Causal)
        self.net, self.view, self.words = net, view, net.words
        self.rough: Anatomy = rough(net)

    def start(self) -> Path:
        return Path((), None, self.view.basis[:, :0])

    @torch.no_grad()
    def entering(self, path: Path, ids: Tensor, net: Anatomy) -> Tensor:
        """What the matrix reads of each word after the path: (words, width)."""
        read = []
        for some in ticking(ids.split(ROWS)):
            vectors = self.words[some][:, None]
            read.append(net.entering(vectors, self.view.layer, self.view.part, path.settled)[:, -1].float())  # type: ignore[operator]
        return torch.cat(read)

    def look(self, path: Path, ids: Tensor, near: int = ROUGHLY) -> Look:
        """In full precision only where they are few, or near; first words all are, in deep layers."""
        few = len(ids) <= FEW or not path.ids or self.rough is self.net
        vectors = self.entering(path, ids, self.net if few else self.rough)
        away = outside(vectors, self.view.basis)
        nearest = away.topk(min(near, len(ids)), largest=False).indices
        nearest = nearest[away[nearest] < NEARLY_IN]
        if not len(nearest):
            return Look(ids, vectors, away, ())
        exact = vectors[nearest] if few else self.entering(path, ids[nearest], self.net)
        away[nearest] = outside(exact, self.view.basis)
        inside = (away[nearest] < LIES_IN) & (outside(exact, path.taken) > DEPENDENT)
        best = nearest[inside][away[nearest][inside].argsort()]
        return Look(ids, vectors, away, tuple(ids[best].tolist()))

    @torch.no_grad()
    def extended(self, path: Path, *ids: int) -> Path:
        """The path with one more word, or with several of which only the last one tells."""
        words, view = self.words[torch.tensor(ids, device=self.words.device)][None], self.view
        layers = min(view.layer + 1, len(self.net.layers))
        settled, states = self.net.settling(words, path.settled, layers)
        vector = self.net.matrix_input(states[view.layer], view.layer, view.part, path.settled)[0, -1]
        left = vector - path.taken @ (path.taken.T @ vector)
        left = left - path.taken @ (path.taken.T @ left)  # once more, as the first leaves rounding
        taken = torch.cat([path.taken, (left / left.norm().clamp_min(1e-30))[:, None]], dim=1)
        return Path((*path.ids, *ids), settled, taken)

    def after(self, first: int) -> Path:
        """A first word of which nothing tells."""
        words = self.words[[first]][None]
        settled = self.net.settled(words, None, min(self.view.layer + 1, len(self.net.layers)))
        return Path((first,), settled, self.view.basis[:, :0])

    @torch.no_grad()
    def look_pairs(self, firsts: Tensor, seconds: Tensor) -> Look:
        """How far each second word sticks out after its first; firsts in full precision, as first states are huge."""
        read, part, layers = [], self.view.part, min(self.view.layer + 1, len(self.net.layers))
        for some, others in ticking(list(zip(firsts.split(ROWS), seconds.split(ROWS), strict=True))):
            different, which = some.unique(return_inverse=True)
            before = self.net.settled(self.words[different][:, None], None, layers)
            before = before.of(which) if len(different) > 1 else before
            read.append(self.rough.entering(self.words[others][:, None], self.view.layer, part, before)[:, -1].float())  # type: ignore[operator]
        vectors = torch.cat(read)
        return Look(seconds, vectors, outside(vectors, self.view.basis), ())
