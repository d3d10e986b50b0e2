"""All that an attack sees: a `Leak`. `demo.client.share` makes it; nothing else comes through the wall.

A batch is its sentences laid end to end, with the marks at their ends: `leak.sentences(ids)` takes them apart.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from demo.victim.gradients import Defense, Gradient
from demo.victim.model import Model
from demo.victim.slices import Piece


@dataclass(frozen=True, eq=False)
class Leak:
    """All that an attacker sees: the public model, the exposed pieces of the gradient, and what it was told."""

    model: Model
    pieces: tuple[Piece, ...]
    gradient: Gradient
    lengths: tuple[int, ...] | None = None  # of each sentence, with the marks at its ends; None: unknown
    labels: tuple[int, ...] | None = None
    batch: int = 1
    dropout: float = 0.0  # the rate is public, as a part of the training recipe; the masks are not
    defenses: tuple[Defense, ...] = ()  # public too; what they draw at random is not

    @property
    def veiled(self) -> bool:
        """Whether even the truth has another gradient than the leaked one, as nobody can repeat what was drawn."""
        return any(defense.noisy for defense in self.defenses) or self.dropout > 0

    @property
    def sparse(self) -> bool:
        """Whether only a part of the numbers was sent, and zeros stand for the others."""
        return any(defense.sparse for defense in self.defenses)

    def sent(self, piece: Piece) -> Tensor:
        """Which numbers of a piece were sent: all, or those that are not zero."""
        value = self.gradient[piece.name]
        return value != 0 if self.sparse else torch.ones_like(value, dtype=torch.bool)

    def blur(self, piece: Piece) -> float:
        """The standard deviation of what defenses added to each number of a piece."""
        return math.hypot(*(defense.blur(self.gradient[piece.name], self.batch) for defense in self.defenses))

    @property
    def length(self) -> int | None:
        """Of the only sentence; None where it is unknown, or where there are several."""
        return self.lengths[0] if self.lengths and self.batch == 1 else None

    def sentences(self, ids: Tensor, lengths: tuple[int, ...] = ()) -> list[Tensor]:
        """A guess at the whole batch -> its sentences; a guess at one sentence is one, whatever it holds.

        `lengths` are the guess's own, where it has any.
        """
        return self.model.sentences(ids, lengths or self.lengths) if self.batch > 1 else [ids]

    def weight(self, part: str, layer: int | None = None) -> Tensor | None:
        """The gradient of one part's weight, or None where it is not exposed."""
        return self.gradient.get(f"{part}.weight" if layer is None else f"{layer}.{part}.weight")
