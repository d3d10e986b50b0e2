"""Decoders look back only: what enters a matrix at a place follows from the words up to there, exactly, at any depth.
A prefix can be checked by itself: the right word's vector lies in the leaked span, every other sticks out.

    view = prefix_views(leak)[0]
    judge = PrefixJudge(leak, view)
    judge.outside(path, words)  # how far each of these words, next after the path, sticks out of the span: (words,)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from demo.attacker.leak import Leak
from demo.attacker.subspace import basis_of
from demo.turns import tick
from demo.victim.anatomy import Anatomy
from demo.victim.causal import BEFORE_ATTENTION, Causal, Settled
from demo.victim.rough import rough
from demo.victim.slices import Piece

PARTS = ("key", "value", "attention-output", "ffn-gate", "ffn-in", "ffn-out", "query")
LIES_IN = 1e-8  # of a right word's squared length sticks out at most: measured 1e-13 to 3e-11, wrong ones 1e-6 and more
DEPENDENT = 1e-7  # a vector that sticks out of the settled ones by less is one of them again
ROUGHLY = 12  # words that a rough check leaves for the exact one
FEW = 64  # words that are checked exactly at once
ROWS = 512  # words put through the layers together


@dataclass(frozen=True, eq=False)
class PrefixView:
    """One exposed matrix of a decoder."""

    piece: Piece
    layer: int
    part: str
    basis: Tensor  # (width, rank), orthonormal
    missing: int  # tokens of a sentence that it does not tell of

    @property
    def rank(self) -> int:
        return self.basis.shape[1]

    @property
    def misses_first(self) -> bool:
        """The first token has only itself to attend to, so nothing it asks for matters."""
        return self.part == "query"

    @property
    def knows_places(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Path:
    """A prefix that passed: its words, what is kept of them, and the directions that they take up of the span."""

    ids: tuple[int, ...]
    settled: Settled | None
    taken: Tensor  # (width, words that tell), orthonormal


def prefix_views(leak: Leak) -> list[PrefixView]:
    """The exposed matrices that tell a decoder's words with their context, the shallowest first."""
    net = leak.model.net
    if not isinstance(net, Causal) or leak.batch > 1 or leak.veiled or leak.defenses:
        return []
    pieces = [piece for piece in leak.pieces if piece.kind == "weight" and piece.part in PARTS]
    pieces = [piece for piece in pieces if _tells_tokens(net, piece) and _in_context(net, piece)]
    found = []
    for piece in sorted(pieces, key=_depth):
        gradient = leak.gradient[piece.name]
        basis = basis_of(gradient)
        if basis.shape[1] < min(gradient.shape) - 1:
            missing = (0 if net.labels else 1) + (piece.part == "query")
            found.append(PrefixView(piece, piece.layer or 0, piece.part, basis, missing))
            break  # a shallower one tells more for less
    return found


def bag_of_words(leak: Leak) -> Tensor | None:
    """The ids that lie in the span of a matrix that reads word vectors without their context; None without one."""
    net = leak.model.net
    if not isinstance(net, Causal) or leak.batch > 1 or leak.veiled or leak.defenses:
        return None
    for part in ("value", "key"):
        gradient = leak.weight(part, 0)
        if gradient is None or _in_context(net, Piece(0, part, "weight", 0)):
            continue
        basis = basis_of(gradient)
        if basis.shape[1] >= min(gradient.shape) - 1:
            continue
        vectors = net.attention_norm(0)(net.words[leak.model.ordinary])
        return leak.model.ordinary[_outside(vectors, basis) < LIES_IN]
    return None


def prefix_length(leak: Leak, view: PrefixView) -> int:
    """Of the sentence: told, or one more than the rank for each token that leaves no trace."""
    return leak.length or view.rank + view.missing


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
        for some in ids.split(ROWS):
            tick()
            vectors = self.words[some][:, None]
            read.append(net.entering(vectors, self.view.layer, self.view.part, path.settled)[:, -1].float())  # type: ignore[operator]
        return torch.cat(read)

    def outside(self, path: Path, ids: Tensor, net: Anatomy | None = None) -> Tensor:
        return _outside(self.entering(path, ids, net or self.net), self.view.basis)

    def look(self, path: Path, ids: Tensor) -> tuple[Tensor, Tensor]:
        """What the matrix reads of each word, and how far it sticks out; in full precision only where it is near."""
        if len(ids) <= FEW or not path.ids or self.rough is self.net:
            vectors = self.entering(path, ids, self.net)
            return vectors, _outside(vectors, self.view.basis)
        vectors = self.entering(path, ids, self.rough)
        outside = _outside(vectors, self.view.basis)
        near = outside.topk(min(ROUGHLY, len(ids)), largest=False).indices
        outside[near] = self.outside(path, ids[near])
        return vectors, outside

    def passing(self, path: Path, ids: Tensor, outside: Tensor) -> list[int]:
        """The words that lie in the span and take up a direction of their own, best first."""
        order = outside.argsort()
        inside = order[outside[order] < LIES_IN]
        if not len(inside):
            return []
        vectors = self.entering(path, ids[inside], self.net)
        alone = _outside(vectors, path.taken) > DEPENDENT
        return ids[inside][alone].tolist()

    @torch.no_grad()
    def extended(self, path: Path, *ids: int) -> Path:
        """The path with one more word, or with several of which only the last one tells."""
        words = self.words[torch.tensor(ids, device=self.words.device)][None]
        vector = self.net.entering(words, self.view.layer, self.view.part, path.settled)[0, -1]
        left = vector - path.taken @ (path.taken.T @ vector)
        left = left - path.taken @ (path.taken.T @ left)  # once more, as the first leaves rounding
        taken = torch.cat([path.taken, (left / left.norm())[:, None]], dim=1)
        return Path((*path.ids, *ids), self.net.settled(words, path.settled), taken)

    @torch.no_grad()
    def pairs_outside(self, firsts: Sequence[int], seconds: Sequence[int]) -> Tensor:
        """How far each second word sticks out after its first: (pairs,)."""
        pairs = torch.tensor([firsts, seconds], device=self.words.device).T
        read = []
        for some in pairs.split(ROWS // 2):
            tick()
            vectors = self.rough.entering(self.words[some], self.view.layer, self.view.part)  # type: ignore[operator]
            read.append(_outside(vectors[:, -1].float(), self.view.basis))
        return torch.cat(read)


def _outside(vectors: Tensor, basis: Tensor) -> Tensor:
    """The share of each vector's squared length that lies outside of a subspace."""
    left = vectors - (vectors @ basis) @ basis.T
    return left.square().sum(-1) / vectors.square().sum(-1).clamp_min(1e-30)


def _depth(piece: Piece) -> tuple[bool, int, int]:
    return piece.part == "query", piece.layer or 0, PARTS.index(piece.part)


def _tells_tokens(net: Causal, piece: Piece) -> bool:
    """Where a label is read, of the last layer only keys and values have a vector for each token."""
    last = len(net.layers) - 1
    return not net.labels or piece.layer != last or piece.part in ("key", "value")


def _in_context(net: Causal, piece: Piece) -> bool:
    """Whether what enters the matrix depends on where a word stands."""
    return bool(net.ADDED) or piece.layer != 0 or piece.part not in BEFORE_ATTENTION
