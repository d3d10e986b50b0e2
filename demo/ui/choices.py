"""What people may ask for: the presets, the limits, and the one door from loose values to an `Experiment`.

Page and API both come through `experiment_from`: numbers out of range are clamped, anything else that is wrong is
refused with a message that names it.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demo.attacks import ATTACKS
from demo.attacks.base import settings_of
from demo.engine import Experiment
from demo.models import MODELS, Model, Weights, outline
from demo.slices import SLICES

PRESETS = {
    "a medical note": "The patient was diagnosed with diabetes last week.",
    "a password": "My new password is blue horse seven.",
    "an address": "Send it to 42 Garden Street, second floor.",
    "a love letter": "I think of you whenever it rains.",
    "a plain sentence": "The cat that the children fed sleeps upstairs.",
}
DEFAULT = Experiment(PRESETS["a medical note"], slice="query", layers=(3,), attack="best")
WEIGHTS = ("pretrained", "normal", "uniform")
LABELS = (0, 1)
CHARACTERS = 2000  # of a sentence, before it is tokenized


@dataclass(frozen=True)
class Limits:
    """How much one visitor may ask for."""

    seconds: float = 120.0
    tokens: int = 64  # of a sentence, without [CLS] and [SEP]
    queue: int = 16  # visitors waiting

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Limits":
        """LEAKSCOPE_SECONDS, LEAKSCOPE_TOKENS and LEAKSCOPE_QUEUE override the defaults."""
        values = {}
        for name, default in (("seconds", cls.seconds), ("tokens", cls.tokens), ("queue", cls.queue)):
            text = environment.get(f"LEAKSCOPE_{name.upper()}", str(default))
            try:
                values[name] = type(default)(text)
            except ValueError:
                raise ValueError(f"LEAKSCOPE_{name.upper()} is {text!r}: give a number") from None
            if not values[name] > 0:
                raise ValueError(f"LEAKSCOPE_{name.upper()} is {text!r}: give a number above 0")
        return cls(**values)  # type: ignore[arg-type]


def experiment_from(
    limits: Limits, sentence: str, label: int, model: str, weights: str | None, scale: float, slice: str,
    layers: Sequence[int], attack: str, knows_length: bool, knows_label: bool, seconds: float, seed: int,
    settings: Mapping[str, Any], device: str | None = None,
) -> Experiment:  # fmt: skip
    """Loose values -> a checked experiment."""
    for name, value, table in (("model", model, MODELS), ("slice", slice, SLICES), ("attack", attack, ATTACKS)):
        if value not in table:
            raise ValueError(f"unknown {name} {str(value)[:40]!r}: choose one of {', '.join(table)}")
    if weights and weights not in WEIGHTS:
        raise ValueError(f"unknown weights {str(weights)[:40]!r}: choose one of {', '.join(WEIGHTS)}")
    if label not in LABELS:
        raise ValueError(f"label {label!r} does not exist: choose {LABELS[0]} or {LABELS[1]}")
    check_sentence(limits, outline(model), sentence)
    chosen = tuple(sorted({int(layer) for layer in layers})) if SLICES[slice].of_layer else ()
    return Experiment(
        sentence, (int(label),), model, Weights(weights, clamp(scale, 1e-3, 1.0)) if weights else None, slice, chosen,
        attack, bool(knows_length), bool(knows_label), clamp(seconds, 1.0, limits.seconds),
        seed=int(clamp(seed, 0, 2**31 - 1)), device=device, settings=clamped(attack, settings),
    )  # fmt: skip


def check_sentence(limits: Limits, model: Model, sentence: str) -> int:
    """The number of tokens, or an error that says what is wrong with the sentence."""
    if len(sentence) > CHARACTERS:
        raise ValueError(f"the sentence has {len(sentence)} characters: give at most {CHARACTERS}")
    tokens = len(model.encode(sentence)) - 2
    if tokens > limits.tokens:
        raise ValueError(f"the sentence has {tokens} tokens: this page takes at most {limits.tokens}")
    return tokens


def clamped(attack: str, settings: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The settings that differ from the attack's own, with numbers brought between their bounds."""
    known, changed = {f.name: f for f in settings_of(ATTACKS[attack])}, []
    for name, value in settings.items():
        default = getattr(ATTACKS[attack], name, None)
        if name in known and isinstance(value, int | float) and not isinstance(value, bool):
            bounds, kind = known[name].metadata, int if isinstance(default, int) else float
            value = kind(clamp(value, bounds["low"], bounds["high"]))
        if value != default:
            changed.append((name, value))  # an unknown name is refused by the engine, which lists the known ones
    return tuple(changed)


def clamp(value: float, low: float, high: float) -> float:
    if not isinstance(value, int | float) or math.isnan(value):
        raise ValueError(f"{str(value)[:40]!r} is not a number: give one from {low:g} to {high:g}")
    return min(max(value, low), high)
