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
from demo.client.defenses import parse, strength_of
from demo.runs.engine import Experiment
from demo.runs.surveys import under

STUDIES: dict[str, tuple[str, ...]] = {
    "dp": tuple(f"noise={sigma:g}" for sigma in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5)),
    "defenses": (
        "prune=0.5",
        "prune=0.9",
        "prune=0.99",
        "mask=0.5",
        "mask=0.9",
        "round=fp16",
        "round=int8",
        "sign",
        "companions=1",
        "companions=3",
        "companions=7",
    ),
}
EXPOSED: tuple[tuple[str, tuple[int, ...]], ...] = (("all", ()), ("layer", (3,)), ("value", (0,)))
FIGURES = ("sentences", "exact", "recover", "rouge1", "rouge2", "cosine", "seconds")
HEADERS = {"dp": ("slice", "sigma", "epsilon", *FIGURES), "defenses": ("slice", "defense", *FIGURES)}


def make(name: str, examples: Sequence[Example], seconds: float, out: str) -> Path:
    """Every slice under every defense; resumes from `out`."""
    rows = [
        line_of(part, layers, words, text, examples, seconds, out)
        for part, layers in EXPOSED
        for text, words in ((text, words_for(name, text)) for text in STUDIES[name])
    ]
    return write(name, [HEADERS[name], *rows])


def line_of(
    part: str,
    layers: tuple[int, ...],
    words: Sequence[str],
    text: str,
    examples: Sequence[Example],
    seconds: float,
    out: str,
) -> list[str]:
    base = Experiment("", slice=part, layers=layers, attack="best", seconds=seconds)
    rows = list(measure(batches(under(base, text), examples, 1), out))
    figures = [f"{100 * mean(rows, key):.1f}" for key in ("exact", "recover_rate", "rouge1", "rouge2")]
    median = statistics.median(float(row["seconds"]) for row in rows)  # type: ignore[arg-type]
    where = f"{part} {layers[0]}" if layers else part
    return [where, *words, str(len(rows)), *figures, f"{mean(rows, 'likeness'):.3f}", f"{median:.1f}"]


def words_for(name: str, text: str) -> list[str]:
    """What stands before the figures: how it is written, or its strength and the privacy that it buys."""
    if name != "dp":
        return [text]
    defense = parse(text)
    return [f"{strength_of(defense):g}", "none" if math.isinf(defense.epsilon) else f"{defense.epsilon:.3g}"]


def mean(rows: Sequence[Row], key: str) -> float:
    return statistics.mean(float(row[key]) for row in rows)  # type: ignore[arg-type]
