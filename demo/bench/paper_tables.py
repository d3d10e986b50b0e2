"""The papers' tables, each line beside our own figures for the same setting, as far as it can be had here.

    make("tag4", Path("data"), limit=3, seconds=20, out="tables.jsonl")  # -> assets/results/tag4.csv
    read("tag4")                                                        # -> header, rows: as the Results tab shows them

The published numbers are the papers', on their machines; ours are measured. Neither is changed by the other.
"""

import csv
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from demo.bench.rows import Row, batches, measure
from demo.bench.sentences import Example
from demo.bench.sentences import read as read_sentences
from demo.client.client import Client
from demo.runs.engine import Experiment
from demo.victim.models import Weights, unavailable

RESULTS = Path(__file__).parents[2] / "assets" / "results"
SHORT, ANY, LONG = (1, 10), (1, 60), (50, 70)  # words of a sentence; TAG has "within ten" and "more than 50"
ROUGE = ("rouge1", "rouge2", "rougeL")
HEADS = {"best_recover_rate": "recover %", "rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}


@dataclass(frozen=True)
class Line:
    """One line of a paper: its numbers, and the experiment that comes closest here."""

    name: str
    published: tuple[float | None, ...]
    ours: Experiment
    files: tuple[str, ...] = ("cola_dev.tsv",)
    words: tuple[int, int] = SHORT

    def missing(self) -> str | None:
        """Why this line cannot be had here; None if it can."""
        return unavailable(self.ours.model, self.ours.weights.kind) if self.ours.weights else None


@dataclass(frozen=True)
class Table:
    """A published table: its columns, and which of ours stand beside them."""

    title: str
    source: str  # where the numbers are from, with its address
    about: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    attacks: tuple[tuple[str, str], ...] = (("TAG", "tag"), ("search", "search"))  # what it is called -> which
    keys: tuple[str, ...] = ("best_recover_rate", *ROUGE)  # TAG's rate is that of the best iteration


def _random(model: str, kind: str = "normal", scale: float = 0.02) -> Experiment:
    return Experiment("", model=model, weights=Weights(kind, scale), slice="all", layers=())


def _pretrained(model: str) -> Experiment:
    return Experiment("", model=model, weights=Weights("pretrained"), slice="all", layers=())


def _minilm(part: str, *layers: int, **more: object) -> Experiment:
    return Experiment("", slice=part, layers=layers, **more)  # type: ignore[arg-type]


_TAG = "Deng et al. 2021, TAG, {} (https://arxiv.org/abs/2103.06819)"
_GLUE = ("rte_dev.tsv", "sst2_dev.tsv", "cola_dev.tsv")
_TAG_COLUMNS = ("recover %", "ROUGE-1", "ROUGE-2", "ROUGE-L")

TABLES = {
    "tag2": Table(
        "Larger models leak more?",
        _TAG.format("Table II"),
        "The whole gradient; RTE, SST-2 and CoLA mixed. Ours: random weights (normal, 0.02), a short budget on a CPU "
        "instead of 1000 steps on a GPU.",
        (*_TAG_COLUMNS, "seconds"),
        tuple(
            Line(title, figures, _random(model), _GLUE, ANY)
            for title, model, figures in (
                ("TinyBERT4", "tinybert4", (29.45, 27.07, 3.12, 22.41, 503.24)),
                ("TinyBERT6", "tinybert6", (38.37, 34.95, 6.54, 30.87, 526.01)),
                ("BERT base", "bert-base", (40.84, 41.95, 7.77, 38.08, 1278.62)),
                ("BERT large", "bert-large", (49.62, 48.67, 15.03, 53.09, 1672.52)),
            )
        ),
    ),
    "tag4": Table(
        "How the weights are drawn",
        _TAG.format("Table IV"),
        "TinyBERT6, the whole gradient. The paper has one GLUE sentence; ours are CoLA's first of at most ten words.",
        _TAG_COLUMNS,
        tuple(
            Line(f"{kind} {scale}", figures, _random("tinybert6", kind, scale))
            for kind, scale, figures in (
                ("uniform", 0.01, (36.21, 39.39, 14.54, 44.39)),
                ("uniform", 0.02, (52.17, 44.27, 15.09, 46.98)),
                ("uniform", 0.03, (60.25, 60.98, 23.63, 57.43)),
                ("normal", 0.01, (50.12, 54.54, 30.00, 66.66)),
                ("normal", 0.02, (41.57, 45.56, 1.01, 40.01)),
                ("normal", 0.03, (33.33, 35.71, 0.0, 37.01)),
            )
        ),
    ),
    "tag5": Table(
        "Pretrained or not",
        _TAG.format("Table V"),
        "TinyBERT6, the whole gradient. Where its pretrained weights are out of reach, the embedded MiniLM, pretrained "
        "too, stands in a line of its own.",
        _TAG_COLUMNS,
        (
            Line("pretrained, CoLA", (48.76, 45.68, 8.01, 37.61), _pretrained("tinybert6")),
            Line("pretrained, SST-2", (43.85, 36.40, 4.26, 32.95), _pretrained("tinybert6"), ("sst2_dev.tsv",)),
            Line("initialised, CoLA", (34.13, 30.84, 6.41, 26.80), _random("tinybert6")),
            Line("initialised, SST-2", (33.82, 30.74, 5.45, 26.42), _random("tinybert6"), ("sst2_dev.tsv",)),
            Line("MiniLM, pretrained, CoLA", (None,) * 4, _minilm("all")),
        ),
    ),
    "tag6": Table(
        "Long and short sentences",
        _TAG.format("Table VI"),
        "TinyBERT6 with random weights, the whole gradient: RTE above 50 words, CoLA within ten.",
        _TAG_COLUMNS,
        (
            Line("RTE", (22.70, 13.40, 1.09, 11.29), _random("tinybert6"), ("rte_dev.tsv",), LONG),
            Line("CoLA", (34.13, 30.84, 6.41, 26.80), _random("tinybert6")),
        ),
    ),
    "li-slices": Table(
        "How little of the gradient is enough",
        "Public code of Li et al. 2024, Seeing the Forest through the Trees (https://arxiv.org/abs/2406.00999)",
        "MiniLM, one part of the gradient. The paper draws its figures as curves, on BERT base: they cannot be quoted "
        "as numbers. The left columns are their public code, run on our model and one sentence of ten words.",
        ("words found", "in place", "seconds"),
        (
            Line("layer 0", (7, 0, 158), _minilm("layer", 0)),
            Line("query 0", (6, 2, 137), _minilm("query", 0)),
            *(
                Line(f"{part} {layer}", (None,) * 3, _minilm(part, layer))
                for part, layer in (
                    ("layer", 3),
                    ("query", 3),
                    ("key", 3),
                    ("value", 3),
                    ("attention-output", 3),
                    ("ffn-in", 3),
                    ("ffn-out", 3),
                )
            ),
        ),
        attacks=(("cosine", "cosine"), ("search", "search")),
    ),
    "grab-dropout": Table(
        "Dropout at the client",
        "Wang et al. 2024, GRAB (https://arxiv.org/abs/2507.21198), BERT base, CoLA, batch 1",
        "MiniLM. The paper attacks the whole gradient, with and without learning dropout's masks. Ours: `best` on "
        "everything but the frozen embeddings, and on one matrix, the values of layer 0.",
        ("ROUGE-1, masks learned", "ROUGE-1, without"),
        tuple(
            Line(f"{title}, dropout {rate}", figures, experiment)
            for rate, figures in ((0.1, (87.7, 76.9)), (0.2, (86.5, 61.2)), (0.3, (82.5, 55.6)), (0.4, (65.1, 38.0)))
            for title, experiment in (
                ("all", _minilm("all", client=Client(dropout=rate, frozen_embeddings=True))),
                ("value 0", _minilm("value", 0, client=Client(dropout=rate))),
            )
        ),
        attacks=(("best", "best"),),
    ),
}


def make(name: str, data: Path, limit: int, seconds: float, out: str) -> Path:
    """Measures a table's lines, resuming from `out`, and writes them beside the published numbers."""
    table = TABLES[name]
    header = [table.title, *table.columns, "sentences"]
    for title, _ in table.attacks:
        header += [f"ours: {title}, {HEADS[key]}" for key in table.keys] + [f"ours: {title}, median s"]
    lines = [line_of(table, line, data, limit, seconds, out) for line in table.lines]
    return write(name, [header, *lines])


def line_of(table: Table, line: Line, data: Path, limit: int, seconds: float, out: str) -> list[str]:
    """The cells of one line; where it cannot be had, its reason in the place of our figures."""
    published = ["" if value is None else f"{value:g}" for value in line.published]
    missing = line.missing()
    if missing:
        return [line.name, *published, "0", f"not here: {missing}"]
    examples = [e for file in line.files for e in _examples(data / file, line.words)[:limit]]
    cells: list[str] = []
    for _, attack in table.attacks:
        base = replace(line.ours, attack=attack, seconds=seconds)
        cells += _figures(list(measure(batches(base, examples, 1), out)), table.keys)
    return [line.name, *published, str(len(examples)), *cells]


def write(name: str, rows: Sequence[Sequence[str]]) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    return path


def read(name: str) -> tuple[list[str], list[list[str]]]:
    """The header and rows that `make` wrote; nothing where it was not made."""
    path = RESULTS / f"{name}.csv"
    if not path.is_file():
        return [], []
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return header, rows


def _examples(path: Path, words: tuple[int, int]) -> list[Example]:
    return read_sentences(path, _column(path), *words)


def _column(path: Path) -> str:
    """RTE has sentences in pairs; the first of each, the longer one, is attacked."""
    return "sentence1" if path.name.startswith("rte") else "sentence"


def _figures(rows: Sequence[Row], keys: Sequence[str]) -> list[str]:
    means = [100 * statistics.mean(float(row[key]) for row in rows) for key in keys]  # type: ignore[arg-type]
    seconds = statistics.median(float(row["seconds"]) for row in rows)  # type: ignore[arg-type]
    return [f"{mean:.1f}" for mean in means] + [f"{seconds:.1f}"]
