"""What of a decoder's leak tells its words: which matrices, with the span of each, and which words occur at all.

view = first_view(leak)  # the shallowest matrix that tells words with their context
outside(vectors, view.basis)  # how far vectors that enter it stick out of the span
bag_of_words(leak)  # the ids that occur, where something tells them by themselves
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from demo.attacker.leak import Leak
from demo.attacker.subspace import basis_of, occupied
from demo.victim.anatomy import Anatomy
from demo.victim.causal import BEFORE_ATTENTION, Causal
from demo.victim.slices import Piece

PARTS = ("key", "value", "attention-output", "ffn-gate", "ffn-in", "ffn-out", "output", "word", "query")
WITHOUT_CONTEXT = ("key", "value", "query")  # in layer 0: keys tell all words, and their order
LIES_IN = 1e-8  # of a right word's squared length sticks out at most: measured 1e-13 to 3e-11, wrong ones 1e-6 and more
LIKELY_ROWS = (1024, 5120)  # of a table that is the output matrix too, by size: no word of the sentence is among them


@dataclass(frozen=True, eq=False)
class PrefixView:
    """One exposed matrix of a decoder."""

    piece: Piece
    layer: int  # the output matrix stands behind the last one
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


def prefix_views(leak: Leak) -> list[PrefixView]:
    """The exposed matrices that tell a decoder's words with their context, the shallowest first."""
    return [view for piece in _telling(leak) for view in _viewed(leak, piece)]


def first_view(leak: Leak) -> PrefixView | None:
    """A shallower one tells more for less: the rest need not be looked at."""
    return next((view for piece in _telling(leak) for view in _viewed(leak, piece)), None)


def wide_view(leak: Leak) -> PrefixView | None:
    """Of the shallowest layer that leaks, the matrix that has room for the most words: for batches."""
    pieces = [piece for piece in _telling(leak) if piece.part not in ("query", "word", "output")]
    shallow = [piece for piece in pieces if piece.layer == pieces[0].layer]
    room = {piece: (min(leak.gradient[piece.name].shape), leak.gradient[piece.name].shape[1]) for piece in shallow}
    widest = sorted(shallow, key=lambda piece: room[piece], reverse=True)
    return next((view for piece in widest[:1] for view in _viewed(leak, piece)), None)


def _telling(leak: Leak) -> list[Piece]:
    net = leak.model.net
    if not isinstance(net, Causal):
        return []
    pieces = [piece for piece in leak.pieces if piece.kind == "weight" and piece.part in PARTS]
    pieces = [piece for piece in pieces if _tells_tokens(net, piece) and in_context(net, piece)]
    return sorted(pieces, key=lambda piece: _depth(net, piece))


def _viewed(leak: Leak, piece: Piece) -> Iterable[PrefixView]:
    """One, or none where the tokens fill the matrix, or where they may be more than the vectors it holds."""
    net, gradient = leak.model.net, leak.gradient[piece.name]
    basis = basis_of(_unlikely_rows(gradient) if piece.part == "word" else gradient, blur=leak.blur(piece))
    # Where one token alone asks, as the last layer's does for a label, a matrix holds one vector a head at most.
    asked_once = net.labels and piece.layer == len(net.layers) - 1
    room = min(gradient.shape) - 1
    if basis.shape[1] < (min(room, net.heads * leak.batch) if asked_once else room):
        missing = (0 if net.labels else 1) + (piece.part == "query")
        yield PrefixView(piece, _layer(net, piece), piece.part, basis, missing)


def _unlikely_rows(gradient: Tensor) -> Tensor:
    """Of a table that is the output matrix too: rows of words that do not occur, which only know the final states."""
    sizes = gradient.norm(dim=1)
    order = sizes.argsort(descending=True)[slice(*LIKELY_ROWS)]
    return gradient[order] / sizes[order, None].clamp_min(1e-30)


def bag_of_words(leak: Leak) -> Tensor | None:
    """The ids that occur, but for a last word that is only a target; None where nothing tells them by themselves."""
    net, table, piece = leak.model.net, leak.weight("word"), telling_of_words(leak)
    if not isinstance(net, Causal):
        return None
    if table is not None:
        found = occupied(leak, "word") if leak.veiled else _occurring(net, table)
        return found[torch.isin(found, leak.model.ordinary)]
    if piece is None:
        return None
    vectors = net.attention_norm(0)(net.words[leak.model.ordinary])
    return leak.model.ordinary[outside(vectors, basis_of(leak.gradient[piece.name])) < LIES_IN]


def telling_of_words(leak: Leak) -> Piece | None:
    """A matrix that reads word vectors by themselves, without their context."""
    net = leak.model.net
    if not isinstance(net, Causal):
        return None
    for piece in (Piece(0, part, "weight", 0) for part in WITHOUT_CONTEXT):
        gradient = leak.gradient.get(piece.name)
        if gradient is not None and not in_context(net, piece):
            basis = basis_of(gradient)
            if basis.shape[1] < min(gradient.shape) - 1:
                return next(known for known in leak.pieces if known.name == piece.name)
    return None


def _occurring(net: Causal, table: Tensor) -> Tensor:
    """Rows that carry gradient; of a table that is the output matrix too, those that stick out of the final states."""
    if net.labels or not net.tied:
        return table.norm(dim=1).nonzero()[:, 0]
    basis = basis_of(_unlikely_rows(table))
    return (outside(table, basis) > 1e-6).nonzero()[:, 0]


def prefix_length(leak: Leak, view: PrefixView) -> int:
    """Of the sentence: told, or one more than the rank for each token that leaves no trace."""
    return leak.length or view.rank + view.missing


def outside(vectors: Tensor, basis: Tensor) -> Tensor:
    """The share of each vector's squared length that lies outside of a subspace."""
    left = vectors - (vectors @ basis) @ basis.T
    return left.square().sum(-1) / vectors.square().sum(-1).clamp_min(1e-30)


def in_context(net: Causal, piece: Piece) -> bool:
    """Whether what enters the matrix depends on where a word stands."""
    return bool(net.ADDED) or piece.layer != 0 or piece.part not in BEFORE_ATTENTION


def _layer(net: Anatomy, piece: Piece) -> int:
    return len(net.layers) if piece.layer is None else piece.layer


def _depth(net: Causal, piece: Piece) -> tuple[bool, int, int]:
    return piece.part == "query", _layer(net, piece), PARTS.index(piece.part)


def _tells_tokens(net: Causal, piece: Piece) -> bool:
    """Where a label is read, of the last layer only keys and values have a vector for each token. Keys that no place
    turns tell of differences between tokens only, as softmax ignores shifts."""
    if piece.part == "key" and net.ADDED:
        return False
    if piece.layer is None:
        return not net.labels and piece.part == ("word" if net.tied else "output")
    last = len(net.layers) - 1
    return not net.labels or piece.layer != last or piece.part in ("key", "value")
