"""The proof that a guess is the sentence: its own gradient, computed anew, beside the leaked one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from demo.attacker.leak import Leak
from demo.turns import tick
from demo.victim.gradients import Gradient, averaged, examples_of, gradient_of, repeated, total
from demo.victim.slices import Piece


@dataclass(frozen=True)
class Certificate:
    """Why a guess must be the sentence: what it leaves unexplained is no more than it may.

    gradient   The guess's own gradient, computed anew, and its largest relative error over the exposed pieces that
               carry signal. The truth repeats the client's own arithmetic, so its residual is rounding only; sentences
               that differ in one word score 1e-3 and more.
    rows       The word table's rows, rebuilt as sums of the position table's, and their relative error. No dropout mask
               is needed for it.
    noise      Under known noise: by how many standard deviations what is left over is more, or less, than noise
               would leave. It is given only where a sentence that is a tenth off would show.
    span       Under dropout: of the word that agrees least with a vector of the leaked span, the share of coordinates
               that do not agree. Dropout explains as many as its rate; a wrong word leaves most of them.
    """

    residual: float
    tolerance: float = 1e-5
    proof: str = "gradient"

    @property
    def holds(self) -> bool:
        return self.residual <= self.tolerance


OTHERWISE_ADDED = 5e-5  # of a batch, which an attacker adds up in an order of its own; wrong ones have 1e-3 and more
DEVIATIONS = 4.0  # standard deviations by which noise may differ from what is expected of it
TENTH_OFF = 0.01  # of the energy is left by a gradient that is off by a tenth; wrong sentences were off by more
FLOOR = 1e-5  # a piece below this share of the largest norm is rounding, e.g. the key bias, whose gradient is zero


def certify(leak: Leak, sentences: Sequence[Tensor], labels: Sequence[int]) -> Certificate | None:
    """Computes the guess's own gradient, defended alike, and compares it with the leak, piece by piece.

    Under dropout there is none: without the client's masks even the truth has another gradient.
    """
    if leak.dropout:
        return None
    clean = clean_gradient(leak, sentences, labels)
    if leak.veiled:
        return _explained_by_noise(leak, clean)
    norms = {name: value.norm() for name, value in clean.items()}
    floor = FLOOR * max(norms.values())
    ours = repeated(clean, leak.defenses, leak.batch)
    errors = []
    for piece in leak.pieces:
        tick()
        name, value = piece.name, leak.gradient[piece.name]
        if norms[name] > floor:
            errors.append(((ours[name] - value) * leak.sent(piece)).norm() / value.norm().clamp_min(1e-30))
    usual = Certificate.tolerance if leak.batch == 1 else OTHERWISE_ADDED
    tolerance = max([usual, *(defense.rounding for defense in leak.defenses)])
    return Certificate(float(torch.stack(errors).max()) if errors else torch.inf, tolerance)


def clean_gradient(leak: Leak, sentences: Sequence[Tensor], labels: Sequence[int]) -> Gradient:
    """A guess's gradient as the client had it before it covered anything: clipped, where the client clips."""
    if not leak.defenses:
        return gradient_of(leak.model, sentences, labels, leak.pieces)
    examples = examples_of(leak.model, sentences, labels, leak.pieces, leak.defenses)
    return averaged(examples, leak.defenses, [piece.name for piece in leak.pieces])


def log_likelihood(leak: Leak, sentences: Sequence[Tensor], labels: Sequence[int]) -> float:
    """How likely known noise makes the leak, were this the sentence; in nats, up to a constant."""
    clean = clean_gradient(leak, sentences, labels)
    return -0.5 * sum(_leftover(leak, clean, piece) for piece in leak.pieces)


def _explained_by_noise(leak: Leak, clean: Gradient) -> Certificate:
    numbers = sum(int(leak.sent(piece).sum()) for piece in leak.pieces)
    spread = math.sqrt(2 * numbers)
    left = sum(_leftover(leak, clean, piece) for piece in leak.pieces)
    nothing = {piece.name: leak.gradient[piece.name] - clean[piece.name] for piece in leak.pieces}
    signal = sum(_leftover(leak, nothing, piece) for piece in leak.pieces)
    tells = TENTH_OFF * signal > 2 * DEVIATIONS * spread
    return Certificate(abs(left - numbers) / spread, DEVIATIONS if tells else -1.0, "noise")


def _leftover(leak: Leak, clean: Gradient, piece: Piece) -> float:
    """The squared difference to the leak, in units of the noise."""
    tick()
    off = (leak.gradient[piece.name] - clean[piece.name]) / leak.blur(piece)
    return total((off * leak.sent(piece)).square())
