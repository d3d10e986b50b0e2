"""The line everything follows from: a linear layer's weight gradient is G = Δᵀ X, so its rows lie in the span of the
layer's inputs X. This file turns exposed matrices into such subspaces and reads the sentence's length from their rank.

    view = views(leak)[0]
    view.bases[0]  # (width, rank), orthonormal: each true input vector of that layer lies in it
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from demo.attacker.algebra import solve
from demo.attacker.asking import asking_length
from demo.attacker.leak import Leak
from demo.turns import tick
from demo.victim.anatomy import Anatomy
from demo.victim.slices import Piece

CLIFF = 1e-6  # singular values fall from ~1e-4 to ~1e-8 of the largest right after the rank
COMPLETION = 40  # rounds in which numbers that were not sent are filled in
MULTIPLIED = 1_000_000_000  # numbers at once while filling in: a fraction of a second
NEARLY = 0.8  # of a span's directions are enough to go by
CLEARLY = 2.0  # times the noise, at least, is what the faintest direction must have, or there may be more below it
DEVIATIONS = 6  # a row of noise is not taken for a word even among thirty thousand
ROUNDING = 1e-6  # a row below this share of the largest is not an occurrence
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
    sent: Tensor  # the gradient as it was shared
    layer: int  # the layer whose stream the features are computed from (the pooler: one past the last)
    heads: int
    read_row_only: bool  # only the token that the classifier reads carries gradient here: its feature alone is known
    blur: float = 0.0  # what a defense added to each number: smaller singular values are its, not the sentence's
    most: int | None = None  # the largest rank that the gradient can have, where it was tampered with
    sparse: bool = False  # whether zeros stand for numbers that were not sent

    @functools.cached_property
    def gradient(self) -> Tensor:
        """As it was shared, with what was not sent filled in where the rank tells how."""
        return completed(self.sent, self.most) if self.sparse and self.most else self.sent

    @functools.cached_property
    def bases(self) -> tuple[Tensor, ...]:
        """One orthonormal (width, rank) per group; a group is a head, or everything."""
        if self.part == "attention-output" and not self.read_row_only:
            blocks = self.gradient.chunk(self.heads, dim=1)
            return tuple(basis_of(block, HEAD_CLIFF, self.blur, self.most) for block in blocks)
        return (basis_of(self.gradient, CLIFF, self.blur, self.most),)

    @property
    def part(self) -> str:
        return self.piece.part

    @property
    def rank(self) -> int:
        return max(basis.shape[1] for basis in self.bases)

    @property
    def length(self) -> int | None:
        """The number of tokens, as the rank tells it; None where they fill the matrix, or where a defense hides it."""
        widest = max(range(len(self.bases)), key=lambda group: self.bases[group].shape[1])
        basis, block = self.bases[widest], self.gradient.chunk(len(self.bases), dim=1)[widest]
        if self.sparse or basis.shape[1] >= min(block.shape) - 1:
            return None
        faintest = float((block @ basis).norm(dim=0).min())
        noise = self.blur * (math.sqrt(block.shape[0]) + math.sqrt(block.shape[1]))
        return self.rank + self.centred if faintest > CLEARLY * noise else None

    @property
    def after_attention(self) -> bool:
        return self.part in ("ffn-in", "ffn-out")

    @property
    def centred(self) -> bool:
        return self.part == "key"

    def stream(self, net: Anatomy, embedded: Tensor) -> Tensor:
        """The network's state (rows, tokens, hidden) from which `features` follow token by token."""
        return net.attended(embedded, self.layer) if self.after_attention else net.inputs(embedded, self.layer)

    def features(self, net: Anatomy, stream: Tensor) -> list[Tensor]:
        """Stream vectors (…, hidden) -> the vectors that lie in each of `bases`."""
        if self.part == "ffn-out":
            return [net.feed_forward(self.layer).wide(stream)]
        if self.part == "attention-output":
            values = net.attention(self.layer).value(stream)
            return list(values.unflatten(-1, (len(self.bases), -1)).unbind(-2))
        return [stream]


# The matrices that make a view, best first: those closest to the embeddings are the least mixed with their context.
ORDER = ("query", "value", "key", "attention-output", "ffn-in", "ffn-out", "pooler")


_VIEWS: WeakKeyDictionary[Leak, list[View]] = WeakKeyDictionary()  # a leak's bases are computed once, and go with it


def views(leak: Leak) -> list[View]:
    """Every exposed matrix as a subspace; the easiest to invert first."""
    if leak not in _VIEWS:
        _VIEWS[leak] = sorted(_found(leak), key=lambda view: _difficulty(leak, view))
    return _VIEWS[leak]


def searchable(leak: Leak) -> Iterator[View]:
    """The views that can judge a guess, easiest first; one at a time, as a basis takes a moment to compute."""
    return (view for view in views(leak) if tells_words(leak, view))


def tells_words(leak: Leak, view: View) -> bool:
    """Whether a view tells words apart: its tokens do not fill its whole width, nor did a decoder mix them all."""
    decoder = leak.model.net.decoder
    if decoder is not None and view.layer >= decoder:
        return False
    return any(basis.shape[1] < basis.shape[0] - 1 for basis in view.bases)  # less one, as a norm may fix the mean


def _found(leak: Leak) -> Iterator[View]:
    layers = leak.model.layers
    if not leak.model.net.both_ways:  # its matrices hold no last token, and not all know the first
        return
    for piece in leak.pieces:
        gradient = leak.gradient[piece.name]
        if piece.part in ORDER and piece.kind == "weight" and gradient.abs().max() > 0:
            layer = layers if piece.layer is None else piece.layer
            # In the last layer one row asks and all answer: their keys and values carry gradient, the rest one row.
            one_row = layer >= layers - 1 and piece.part not in ("key", "value")
            heads = leak.model.net.heads
            asking = 1 if one_row else heads if layer >= layers - 1 else None
            most = _most(leak, asking) if leak.defenses else None
            yield View(piece, gradient, layer, heads, one_row, leak.blur(piece), most, leak.sparse)


def _difficulty(leak: Leak, view: View) -> tuple[bool, int, int, int]:
    """Under noise, what still shows of a span counts first, up to nearly all; then how near it is to the embeddings."""
    exact = view.layer < leak.model.layers and leak.model.net.reads_embeddings(view.layer)
    enough = math.ceil(NEARLY * (view.most or view.rank))
    hidden = -min(view.rank, enough) if leak.veiled and view.blur else 0
    return view.read_row_only, hidden, 0 if exact else view.layer, ORDER.index(view.part)


def _most(leak: Leak, asking: int | None) -> int | None:
    """The largest rank that a gradient matrix can have: one for each token that carries gradient, or for each head in
    which the one token that is read asks."""
    tokens = sum(leak.lengths) if leak.lengths else None
    return tokens if asking is None else min(asking * leak.batch, tokens or asking * leak.batch)


def completed(gradient: Tensor, rank: int) -> Tensor:
    """A matrix of which zeros were not sent -> the matrix of that rank that agrees best with what was sent.

    Alternating least squares: with the row space known, each row follows from its own numbers, and so does each column
    with the column space known.
    """
    matrix = gradient.cpu().double()
    known = (matrix != 0).double()
    if bool((known == 1).all()):
        return gradient
    right = basis_of(gradient / known.mean().clamp_min(1e-6).to(gradient), 0.0, 0.0, rank).cpu().double()
    for _ in range(COMPLETION):
        tick("filling in the numbers that were not sent")
        left = _fitted(matrix, known, right)
        right = torch.linalg.qr(_fitted(matrix.T, known.T, torch.linalg.qr(left).Q)).Q
    return (_fitted(matrix, known, right) @ right.T).to(gradient)


def _fitted(matrix: Tensor, known: Tensor, basis: Tensor) -> Tensor:
    """Each row's coefficients in a basis (width, rank), fitted to the numbers of the row that are known."""
    rank = basis.shape[1]
    pairs = (basis[:, :, None] * basis[:, None]).flatten(1)  # (width, rank²): times the mask, each row's Gram
    ridge = 1e-9 * torch.eye(rank, dtype=basis.dtype)  # rows of which hardly anything was sent
    fitted = []
    at_once = max(1, MULTIPLIED // pairs.numel())
    for rows, mask in zip(matrix.split(at_once), known.split(at_once), strict=True):
        tick()
        gram = (mask @ pairs).view(-1, rank, rank)
        fitted.append(solve(gram + ridge, (mask * rows) @ basis))
    return torch.cat(fitted)


def basis_of(gradient: Tensor, cliff: float = CLIFF, blur: float = 0.0, most: int | None = None) -> Tensor:
    """An orthonormal basis (width, rank) of the rows of a weight gradient (out, width).

    Noise of a standard deviation `blur` has singular values up to blur · (√out + √width): those are left out.
    """
    tick("reading the span of the exposed matrices")
    matrix = gradient.cpu().double()  # the squares below need the digits; Apple's GPU has no float64
    wide = matrix.shape[1] > matrix.shape[0]
    squares, vectors = torch.linalg.eigh(matrix @ matrix.T if wide else matrix.T @ matrix)
    values = squares.clamp_min(0).sqrt()
    floor = 1.05 * blur * (math.sqrt(matrix.shape[0]) + math.sqrt(matrix.shape[1]))
    kept = values > max(cliff * float(values[-1]), floor)
    kept[: max(0, len(values) - (most or len(values)))] = False
    kept[-1] = True  # a subspace there is, however little it may mean
    basis = matrix.T @ (vectors[:, kept] / values[kept]) if wide else vectors[:, kept]
    return basis.float().to(gradient.device)


def read_lengths(leak: Leak) -> tuple[int, ...] | None:
    """The number of tokens of each sentence, as far as it is told or can be read; of a batch it must be told."""
    length = read_length(leak)
    return leak.lengths if length is None else (length,)


def read_length(leak: Leak) -> int | None:
    """The only sentence's tokens: told, or the position table's non-zero rows, or the rank of an exposed matrix."""
    if leak.length is not None or leak.batch > 1:
        return leak.length
    if leak.weight("position") is not None:
        rows = occupied(leak, "position")
        if 0 < len(rows) < leak.model.net.longest:  # noise may fill them all
            return int(rows.max()) + 1
    last = leak.model.layers - 1  # in the last layer only the token that is read carries gradient, or one per head
    view = next((view for view in views(leak) if view.layer < last), None)
    length = view.length if view is not None else asking_length(leak)
    return length if length and length <= leak.model.net.longest else None


def occupied(leak: Leak, part: str) -> Tensor:
    """The rows of a table that carry gradient, and not only what a defense may have added."""
    piece = next(piece for piece in leak.pieces if piece.part == part and piece.kind == "weight")
    rows = leak.gradient[piece.name]
    size = rows.norm(dim=1)
    # The length of a row of noise, and how it varies.
    noise = leak.blur(piece) * (math.sqrt(rows.shape[1]) + DEVIATIONS / math.sqrt(2))
    return (size > max(ROUNDING * float(size.max()), noise)).nonzero()[:, 0]
