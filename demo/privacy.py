"""The question of differential privacy, measured: how much noise stops the leak, and what privacy that buys.

    make(examples, seconds=30, out="dp.jsonl")  # -> assets/results/dp.csv

The noise is that of DP-SGD: the gradient of all parameters is clipped to C = 1, and Gaussian noise of σ·C is added to
every number before a slice of it leaks. (The public code of the partial-gradients paper read the gradient before that.)
"""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from demo.defenses import Noise
from demo.engine import Experiment
from demo.measuring import Row, batches, measure
from demo.sentences import Example
from demo.tables import write

SIGMAS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5)
EXPOSED: tuple[tuple[str, tuple[int, ...]], ...] = (("all", ()), ("layer", (3,)), ("value", (0,)))
HEADER = ("slice", "sigma", "epsilon", "sentences", "exact", "recover", "rouge1", "rouge2", "cosine", "seconds")


def make(examples: Sequence[Example], seconds: float, out: str) -> Path:
    """Every slice under every noise, the strongest attack on each sentence; resumes from `out`."""
    rows = [line_of(part, layers, sigma, examples, seconds, out) for part, layers in EXPOSED for sigma in SIGMAS]
    return write("dp", [HEADER, *rows])


def line_of(
    part: str, layers: tuple[int, ...], sigma: float, examples: Sequence[Example], seconds: float, out: str
) -> list[str]:
    noise = Noise(sigma)
    base = Experiment("", slice=part, layers=layers, attack="best", seconds=seconds, defenses=(noise,))
    rows = list(measure(batches(base, examples, 1), out))
    epsilon = "none" if math.isinf(noise.epsilon) else f"{noise.epsilon:.3g}"
    figures = [f"{100 * mean(rows, key):.1f}" for key in ("exact", "recover_rate", "rouge1", "rouge2")]
    seconds = statistics.median(float(row["seconds"]) for row in rows)  # type: ignore[arg-type]
    where = f"{part} {layers[0]}" if layers else part
    return [where, f"{sigma:g}", epsilon, str(len(rows)), *figures, f"{mean(rows, 'likeness'):.3f}", f"{seconds:.1f}"]


def mean(rows: Sequence[Row], key: str) -> float:
    return statistics.mean(float(row[key]) for row in rows)  # type: ignore[arg-type]
