"""What each party knows: the client its `Secret`, the attacker a `Leak`. `share` is the only door between them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from demo.models import Model, ModelError
from demo.slices import Piece, modules

Gradient = dict[str, Tensor]  # piece name -> the gradient of that parameter


@dataclass(frozen=True, eq=False)
class Secret:
    """The client's private sentence and label. No attack may hold one."""

    ids: Tensor  # (tokens,), [CLS] and [SEP] included
    label: int


@dataclass(frozen=True, eq=False)
class Leak:
    """All that an attacker sees: the public model, the exposed pieces of the gradient, and what it was told."""

    model: Model
    pieces: tuple[Piece, ...]
    gradient: Gradient
    length: int | None = None  # tokens, [CLS] and [SEP] included; None: unknown
    label: int | None = None

    def weight(self, part: str, layer: int | None = None) -> Tensor | None:
        """The gradient of one part's weight, or None where it is not exposed."""
        return self.gradient.get(f"{part}.weight" if layer is None else f"{layer}.{part}.weight")


def share(model: Model, secret: Secret, pieces: Sequence[Piece], length: bool = True, label: bool = True) -> Leak:
    """What the client sends: the chosen pieces, and whether the attacker is told the length and the label."""
    gradient = gradient_of(model, secret.ids, secret.label, pieces)
    told_length = len(secret.ids) if length else None
    return Leak(model, tuple(pieces), gradient, told_length, secret.label if label else None)


def gradient_of(model: Model, ids: Tensor, label: int, pieces: Sequence[Piece]) -> Gradient:
    """The gradient of the loss on one sentence: the client's step, and how an attacker checks a guess."""
    if not 0 <= label < model.net.classifier.out_features:
        raise ModelError(f"label {label} does not exist: choose 0 to {model.net.classifier.out_features - 1}")
    found = modules(model.net)
    parameters = [getattr(found[piece.module], piece.kind) for piece in pieces]
    with model.net.thawed(parameters), torch.enable_grad():
        loss = F.cross_entropy(model.net(model.words[ids][None]), torch.tensor([label], device=model.device))
        values = torch.autograd.grad(loss, parameters, allow_unused=True)
    return {
        piece.name: torch.zeros_like(parameter) if value is None else value
        for piece, parameter, value in zip(pieces, parameters, values, strict=True)
    }


@dataclass(frozen=True)
class Certificate:
    """How well a guess explains the leak: the largest relative error over the exposed pieces that carry signal.

    The true sentence repeats the client's own arithmetic, so its residual is rounding only, far below `TOLERANCE`;
    sentences that differ in one word score 1e-3 and more. `holds` says that the guess is the sentence.
    """

    residual: float

    TOLERANCE = 1e-5

    @property
    def holds(self) -> bool:
        return self.residual <= self.TOLERANCE


FLOOR = 1e-5  # a piece below this share of the largest norm is rounding, e.g. the key bias, whose gradient is zero


def certify(leak: Leak, ids: Tensor, label: int) -> Certificate:
    """Computes the guess's own gradient and compares it with the leak, piece by piece."""
    ours = gradient_of(leak.model, ids, label, leak.pieces)
    norms = {name: value.norm() for name, value in leak.gradient.items()}
    floor = FLOOR * max(norms.values())
    errors = [(ours[name] - value).norm() / norms[name] for name, value in leak.gradient.items() if norms[name] > floor]
    return Certificate(float(torch.stack(errors).max()) if errors else torch.inf)
