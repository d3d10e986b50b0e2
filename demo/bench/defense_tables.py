"""What a defense is worth, measured: our strongest attack on some slices of the gradient, under each defense.

    make("dp", examples, seconds=30, out="dp.jsonl")  # -> assets/results/dp.csv

`dp` is the question of differential privacy: how much noise stops the leak, and what privacy that buys. The noise is
that of DP-SGD: the gradient of all parameters is clipped to C = 1, and Gaussian noise of σ·C is added to every number
before a slice of it leaks. (The public code of the partial-gradients paper read the gradient before that.)
`defenses` has all others.
"""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from demo.bench.paper_tables import write
from demo.bench.rows import Row, batches, measure
from demo.bench.sentences import Example
from demo.client.defenses import Noise, parse, told_of
from demo.runs.engine import Experiment
from demo.victim.gradients import Defense

STUDIES: dict[str, tuple[Defense, ...]] = {
    "dp": tuple(Noise(sigma) for sigma in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5)),
    "defenses": tuple(
        parse(text)
        for text in (
            "prune=0.5",
            "prune=0.9",
            "prune=0.99",
            "mask=0.5",
            "mask=0.9",
            "round=fp16",
            "round=int8",
            "sign",
            "average=2",
            "average=4",
            "average=8",
        )
    ),
}
EXPOSED: tuple[tuple[str, tuple[int, ...]], ...] = (("all", ()), ("layer", (3,)), ("value", (0,)))
FIGURES = ("sentences", "exact", "recover", "rouge1", "rouge2", "cosine", "seconds")
HEADERS = {"dp": ("slice", "sigma", "epsilon", *FIGURES), "defenses": ("slice", "defense", *FIGURES)}


def make(name: str, examples: Sequence[Example], seconds: float, out: str) -> Path:
    """Every slice under every defense; resumes from `out`."""
    rows = [
        line_of(part, layers, defense, examples, seconds, out) for part, layers in EXPOSED for defense in STUDIES[name]
    ]
    return write(name, [HEADERS[name], *rows])


def line_of(
    part: str, layers: tuple[int, ...], defense: Defense, examples: Sequence[Example], seconds: float, out: str
) -> list[str]:
    base = Experiment("", slice=part, layers=layers, attack="best", seconds=seconds, defenses=(defense,))
    rows = list(measure(batches(base, examples, 1), out))
    figures = [f"{100 * mean(rows, key):.1f}" for key in ("exact", "recover_rate", "rouge1", "rouge2")]
    median = statistics.median(float(row["seconds"]) for row in rows)  # type: ignore[arg-type]
    where = f"{part} {layers[0]}" if layers else part
    return [where, *words_for(defense), str(len(rows)), *figures, f"{mean(rows, 'likeness'):.3f}", f"{median:.1f}"]


def words_for(defense: Defense) -> list[str]:
    if not isinstance(defense, Noise):
        return [told_of(defense)]
    return [f"{defense.noise_multiplier:g}", "none" if math.isinf(defense.epsilon) else f"{defense.epsilon:.3g}"]


def mean(rows: Sequence[Row], key: str) -> float:
    return statistics.mean(float(row[key]) for row in rows)  # type: ignore[arg-type]
