"""What a client does to its gradient before it shares it. Defenses are combined in their order, and they are public.

    defended([clean gradient of each example], (Noise(1e-2), Prune(0.9)), generator)

What a defense costs is told by how much the gradient still points where it did: the cosine between the defended and the
clean one, a proxy for what training loses.
"""

import functools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from demo.settings import setting, with_settings
from demo.victim.gradients import Defense, Gradient, averaged, covered, total


@dataclass(frozen=True)
class Noise(Defense):
    """Differential privacy as DP-SGD has it (Abadi et al. 2016): clip each example over all parameters, add noise."""

    about: ClassVar = "Differential privacy: every example is clipped to a length, and Gaussian noise is added."
    whole: ClassVar = True
    drawn: ClassVar = True
    strengths: ClassVar = (1e-7, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 1e-2, 0.1)
    noise_multiplier: float = setting(1e-3, "noise, as a multiple of the clipping norm", 0.0, 10.0)
    max_grad_norm: float = setting(1.0, "each example's gradient is clipped to this length", 1e-3, 1e3)
    sampling_rate: float = setting(0.01, "share of the data in a batch, for the privacy that it buys", 1e-6, 1.0)
    steps: int = setting(1000, "training steps, for the privacy that it buys", 1, 10_000_000)
    delta: float = setting(1e-5, "chance that privacy fails altogether", 1e-12, 0.1)

    def each(self, example: Gradient) -> Gradient:
        norm = math.sqrt(sum(total(value.square()) for value in example.values()))
        factor = min(1.0, self.max_grad_norm / max(norm, 1e-30))
        return {name: value * factor for name, value in example.items()}

    def cover(self, gradient: Gradient, batch: int, generator: torch.Generator) -> Gradient:
        scale = self.noise_multiplier * self.max_grad_norm / batch
        return {
            name: value + scale * torch.randn(value.shape, generator=generator).to(value.device)
            for name, value in gradient.items()
        }

    @property
    def noisy(self) -> bool:
        return self.noise_multiplier > 0

    def blur(self, gradient: Tensor, batch: int) -> float:
        return self.noise_multiplier * self.max_grad_norm / batch

    @property
    def epsilon(self) -> float:
        """The privacy that all the steps together buy, by Opacus' Rényi accountant; infinite where it is none."""
        return _epsilon(self.noise_multiplier, self.sampling_rate, self.steps, self.delta)

    @property
    def note(self) -> str:
        """The privacy in the words of differential privacy."""
        given = (
            f"at δ = {self.delta:g}, for q = {self.sampling_rate:g}, {self.steps:,} steps (Opacus' Rényi accountant)"
        )
        if math.isinf(self.epsilon):
            return f"No privacy guarantee (ε above 10⁶) {given}."
        return f"ε = {self.epsilon:,.3g} {given}."


@dataclass(frozen=True)
class Prune(Defense):
    """Keeps the largest numbers of each tensor (Zhu et al. 2019, as a defense)."""

    about: ClassVar = "Keeps only the largest numbers of each tensor; the others are sent as zero."
    sparse: ClassVar = True
    strengths: ClassVar = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
    dropped: float = setting(0.9, "share of the numbers that is dropped", 0.0, 0.9999)

    def cover(self, gradient: Gradient, batch: int, generator: torch.Generator) -> Gradient:
        return {name: _largest(value, 1 - self.dropped) for name, value in gradient.items()}


@dataclass(frozen=True)
class Mask(Defense):
    """Sends a random part. Which part shows in the zeros."""

    about: ClassVar = "Sends a random part of the numbers; the others are sent as zero."
    drawn: ClassVar = True
    sparse: ClassVar = True
    strengths: ClassVar = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99)
    dropped: float = setting(0.5, "share of the numbers that is dropped", 0.0, 0.9999)

    def cover(self, gradient: Gradient, batch: int, generator: torch.Generator) -> Gradient:
        return {
            name: value * (torch.rand(value.shape, generator=generator) >= self.dropped).to(value.device)
            for name, value in gradient.items()
        }


@dataclass(frozen=True)
class Round(Defense):
    """Fewer bits: half precision, or 8-bit whole numbers scaled to each tensor's largest."""

    about: ClassVar = "Sends the numbers with fewer bits."
    strengths: ClassVar = ("fp16", "int8")
    kind: str = setting("fp16", "half precision, or 8-bit whole numbers", choices=("fp16", "int8"))

    @property
    def rounding(self) -> float:
        return 1e-3 if self.kind == "fp16" else 1e-2  # a number may round the other way

    def cover(self, gradient: Gradient, batch: int, generator: torch.Generator) -> Gradient:
        if self.kind == "fp16":  # scaled, as mixed-precision training does: small gradients would round to zero
            return {name: (value / _unit(value)).half().float() * _unit(value) for name, value in gradient.items()}
        return {name: (127 * value / _unit(value)).round() / 127 * _unit(value) for name, value in gradient.items()}

    def blur(self, gradient: Tensor, batch: int) -> float:
        if self.kind == "fp16":
            return 2**-11 * float(gradient.square().mean().sqrt()) / math.sqrt(12)
        return float(_unit(gradient)) / 127 / math.sqrt(12)


@dataclass(frozen=True)
class Sign(Defense):
    """One bit a number (signSGD)."""

    about: ClassVar = "Sends only the sign of each number."
    sizes: ClassVar = False

    def cover(self, gradient: Gradient, batch: int, generator: torch.Generator) -> Gradient:
        return {name: value.sign() for name, value in gradient.items()}


DEFENSES: dict[str, type[Defense]] = {
    "noise": Noise,
    "prune": Prune,
    "mask": Mask,
    "round": Round,
    "sign": Sign,
}


def defended(
    examples: Sequence[Gradient], defenses: Sequence[Defense], shared: Sequence[str], generator: torch.Generator
) -> Gradient:
    """The gradients of the batch's examples -> what is shared of their mean: the pieces of these names."""
    gradient = averaged(examples, defenses, shared)
    for defense in defenses:
        gradient = covered(gradient, defense, len(examples), generator)
    return gradient


def told_of(defense: Defense) -> str:
    """Noise(1e-3) -> noise=0.001: what `parse` reads."""
    name, strength = next(name for name, kind in DEFENSES.items() if kind is type(defense)), strength_of(defense)
    if strength is None:
        return name
    return f"{name}={strength if isinstance(strength, str) else format(strength, 'g')}"


def strength_of(defense: Defense) -> Any:
    """The value of the first field, which tells how strong it is; None where there is nothing to choose."""
    own = fields(defense)
    return getattr(defense, own[0].name) if own else None


def parse(text: str) -> Defense:
    """noise=1e-3 -> Noise(1e-3); sign -> Sign()"""
    name, _, value = text.partition("=")
    if name not in DEFENSES:
        raise ValueError(f"unknown defense {name!r}: choose one of {', '.join(DEFENSES)}")
    default = DEFENSES[name]()
    if not fields(default):
        if value:
            raise ValueError(f"{name} has no strength: write just {name}")
        return default
    if not value:
        raise ValueError(f"{name} needs a strength: {name}={strength_of(default)}")
    first = fields(default)[0]
    strength: Any = value
    if not first.metadata["choices"]:
        try:
            strength = float(value)
        except ValueError:
            raise ValueError(f"the strength of {name} is {value!r}: give a number") from None
    return with_settings(default, name, [(first.name, strength)])


def _largest(value: Tensor, share: float) -> Tensor:
    kept = max(1, round(share * value.numel()))
    where = value.abs().flatten().topk(kept).indices
    thinned = torch.zeros_like(value.flatten())
    thinned[where] = value.flatten()[where]
    return thinned.view_as(value)


def _unit(value: Tensor) -> Tensor:
    return value.abs().max().clamp_min(1e-30)


@functools.lru_cache(maxsize=1000)
def _epsilon(noise_multiplier: float, sampling_rate: float, steps: int, delta: float) -> float:
    from opacus.accountants import RDPAccountant  # here, as it takes a second to import and few ask

    if noise_multiplier <= 0:
        return math.inf
    accountant = RDPAccountant()
    accountant.history = [(noise_multiplier, sampling_rate, steps)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a wider range of orders might give a tighter bound
        try:
            found = accountant.get_epsilon(delta)
        except (OverflowError, ValueError, FloatingPointError):
            return math.inf
    return found if math.isfinite(found) and found < 1e6 else math.inf
