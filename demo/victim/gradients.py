"""Gradients: the step that client and attacker both can take, and what anyone may know of a defense.

gradient_of(model, [ids], [label], pieces)  # {"2.query.weight": (384, 384), …}
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from demo.turns import tick
from demo.victim.anatomy import NONE, Masks
from demo.victim.hub import ModelError
from demo.victim.model import Model
from demo.victim.slices import Piece, all_pieces

Gradient = dict[str, Tensor]  # piece name -> the gradient of that parameter


@dataclass(frozen=True)
class Defense:
    """Leaves everything as it is; each defense overrides its part. The first field is its strength."""

    about: ClassVar[str] = ""
    whole: ClassVar[bool] = False  # needs the gradient of all parameters, whatever is shared of it
    drawn: ClassVar[bool] = False  # draws at random what nobody else can repeat
    sparse: ClassVar[bool] = False  # sends zeros instead of most numbers
    sizes: ClassVar[bool] = True  # tells how large numbers are, not only their signs
    strengths: ClassVar[tuple[float | str, ...]] = ()  # from weak to strong, around where attacks give up

    def each(self, example: Gradient) -> Gradient:
        """What is done to each example's own gradient."""
        return example

    def cover(self, gradient: Gradient, batch: int, generator: torch.Generator) -> Gradient:
        """What is done to the mean over the batch, which is shared."""
        return gradient

    @property
    def noisy(self) -> bool:
        """Whether it adds what only its distribution is known of."""
        return False

    @property
    def rounding(self) -> float:
        """By how much the same numbers may differ, relatively, on another device."""
        return 0.0

    @property
    def epsilon(self) -> float:
        """The differential privacy that it buys; infinite where it is none."""
        return math.inf

    @property
    def note(self) -> str:
        """What its settings mean for the client, where there is more to say than their help does."""
        return ""

    def blur(self, gradient: Tensor, batch: int) -> float:
        """The standard deviation of what it adds to each number of a shared tensor, as anyone can tell."""
        return 0.0


def gradient_of(
    model: Model,
    sentences: Sequence[Tensor],
    labels: Sequence[int],
    pieces: Sequence[Piece],
    masks: Sequence[Masks] = (),
) -> Gradient:
    """The gradient of the mean loss on a batch: the client's step, and how an attacker checks a guess."""
    classes = model.net.labels
    for label in labels if classes else ():
        if not 0 <= label < classes:
            raise ModelError(f"label {label} does not exist: choose 0 to {classes - 1}")
    net = model.net.trained
    found = net.parts()
    parameters = [getattr(found[piece.module], piece.kind) for piece in pieces]
    with torch.enable_grad():
        total = torch.zeros((), device=model.device)
        for ids, label, mask in zip(sentences, labels, masks or [NONE] * len(sentences), strict=True):
            total = total + net.loss(net.words[ids][None], model.targets(ids, label), mask).sum()
        values = torch.autograd.grad(total / len(sentences), parameters, allow_unused=True)
    return {
        piece.name: torch.zeros_like(parameter) if value is None else value
        for piece, parameter, value in zip(pieces, parameters, values, strict=True)
    }


def examples_of(
    model: Model,
    sentences: Sequence[Tensor],
    labels: Sequence[int],
    pieces: Sequence[Piece],
    defenses: Sequence[Defense],
    masks: Sequence[Masks] = (),
) -> list[Gradient]:
    """Each sentence's own gradient; of all parameters, where a defense looks at all of them."""
    needed = all_pieces(model) if any(defense.whole for defense in defenses) else pieces
    every = zip(sentences, labels, masks or [NONE] * len(sentences), strict=True)
    return [gradient_of(model, [ids], [label], needed, [mask]) for ids, label, mask in every]


def averaged(examples: Sequence[Gradient], defenses: Sequence[Defense], shared: Sequence[str]) -> Gradient:
    """The mean of the examples, each treated on its own, before anything is done to the mean."""
    for defense in defenses:
        examples = [defense.each(example) for example in examples]
    return {name: torch.stack([example[name] for example in examples]).mean(0) for name in shared}


def repeated(gradient: Gradient, defenses: Sequence[Defense], batch: int) -> Gradient:
    """What an attacker can do to a guess's gradient too: everything that is not drawn at random."""
    for defense in defenses:
        if not defense.drawn:
            gradient = covered(gradient, defense, batch, torch.Generator())
    return gradient


def covered(gradient: Gradient, defense: Defense, batch: int, generator: torch.Generator) -> Gradient:
    """Tensor by tensor, as a large model's take long."""
    result: Gradient = {}
    for name, value in gradient.items():
        tick("defending the gradient")
        result |= defense.cover({name: value}, batch, generator)
    return result


def likeness(one: Gradient, other: Gradient) -> float:
    """The cosine between two gradients, over all pieces together."""
    dot = sum(total(one[name] * other[name]) for name in one)
    sizes = [math.sqrt(sum(total(value.square()) for value in g.values())) for g in (one, other)]
    return dot / max(sizes[0] * sizes[1], 1e-300)


def total(values: Tensor) -> float:
    """The sum of all, to more digits than 32 bits hold: of rows on the device, of their sums in 64 bits on the CPU, as
    Apple's GPU has none."""
    return float(values.sum(-1).cpu().double().sum())
