"""The line everything follows from: a linear layer's weight gradient is G = Δᵀ X, so its rows lie in the span of the
layer's inputs X. This file turns exposed matrices into such subspaces and reads the sentence's length from their rank.

    view = views(leak)[0]
    view.bases[0]  # (width, rank), orthonormal: each true input vector of that layer lies in it
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from demo.leak import Leak
from demo.network import Network
from demo.slices import Piece

CLIFF = 1e-6  # singular values fall from ~1e-4 to ~1e-8 of the largest right after the rank
HEAD_CLIFF = 1e-5  # one head's block is worse conditioned


@dataclass(frozen=True, eq=False)
class View:
    """One exposed matrix as a subspace that holds known features of the sentence's tokens.

    query, value, ffn-in, ffn-out   the matrix's inputs span it
    key                             softmax ignores shifts, so Δ sums to zero over tokens: *differences* of inputs do
    attention-output                its input mixes tokens, but within one head the mixtures span what the value
                                    vectors span: one small subspace per head
    """

    piece: Piece
    bases: tuple[Tensor, ...]  # one (width, rank) per group; a group is a head, or everything
    layer: int  # the layer whose stream the features are computed from (the pooler: one past the last)

    @property
    def part(self) -> str:
        return self.piece.part

    @property
    def rank(self) -> int:
        return max(basis.shape[1] for basis in self.bases)

    @property
    def centred(self) -> bool:
        return self.part == "key"

    @property
    def read_row_only(self) -> bool:
        """Only the token that the classifier reads carries gradient here, so only its feature is known."""
        return self.rank == 1

    def stream(self, net: Network, embedded: Tensor) -> Tensor:
        """The network's state (rows, tokens, hidden) from which `features` follow token by token."""
        if self.part in ("ffn-in", "ffn-out"):
            return net.attended(embedded, self.layer)
        return net.inputs(embedded, self.layer)

    def features(self, net: Network, stream: Tensor) -> list[Tensor]:
        """Stream vectors (…, hidden) -> the vectors that lie in each of `bases`."""
        if self.part == "ffn-out":
            return [net.block(self.layer).intermediate(stream)]
        if self.part == "attention-output":
            values = net.block(self.layer).attention.self.value(stream)
            return list(values.unflatten(-1, (len(self.bases), -1)).unbind(-2))
        return [stream]


# The matrices that make a view, best first: those closest to the embeddings are the least mixed with their context.
ORDER = ("query", "value", "key", "attention-output", "ffn-in", "ffn-out", "pooler")


def views(leak: Leak) -> list[View]:
    """Every exposed matrix as a subspace; the easiest to invert first."""
    found = []
    for piece in leak.pieces:
        if piece.part in ORDER and piece.kind == "weight" and leak.gradient[piece.name].abs().max() > 0:
            layer = leak.model.layers if piece.layer is None else piece.layer
            found.append(View(piece, _bases(leak, piece), layer))

    def depth(view: View) -> int:
        return 0 if leak.model.layers > view.layer and leak.model.net.reads_embeddings(view.layer) else view.layer

    return sorted(found, key=lambda view: (view.read_row_only, depth(view), ORDER.index(view.part)))


def basis_of(gradient: Tensor, cliff: float = CLIFF) -> Tensor:
    """An orthonormal basis (width, rank) of the rows of a weight gradient (out, width)."""
    matrix = gradient.double().cpu()  # the squares below need the digits; Apple's GPU has no float64
    wide = matrix.shape[1] > matrix.shape[0]
    squares, vectors = torch.linalg.eigh(matrix @ matrix.T if wide else matrix.T @ matrix)
    values = squares.clamp_min(0).sqrt()
    kept = values > cliff * values[-1]
    basis = matrix.T @ (vectors[:, kept] / values[kept]) if wide else vectors[:, kept]
    return basis.float().to(gradient.device)


def read_length(leak: Leak) -> int | None:
    """The number of tokens: told, or the position table's non-zero rows, or the rank of an exposed matrix."""
    if leak.length is not None:
        return leak.length
    positions = leak.weight("position")
    if positions is not None:
        return int((positions.abs().amax(1) > 0).sum())
    last = leak.model.layers - 1  # in the last layer only the token that is read carries gradient, or one per head
    ranks = [view.rank + view.centred for view in views(leak) if view.layer < last]
    return max(ranks) if ranks else None


def _bases(leak: Leak, piece: Piece) -> tuple[Tensor, ...]:
    gradient = leak.gradient[piece.name]
    if piece.part != "attention-output":
        return (basis_of(gradient),)
    heads = leak.model.net.config.num_attention_heads
    whole = basis_of(gradient)
    if whole.shape[1] == 1:  # the last layer: one row, which mixes the tokens differently in each head
        return (whole,)
    return tuple(basis_of(block, HEAD_CLIFF) for block in gradient.chunk(heads, dim=1))
