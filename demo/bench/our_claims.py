"""What the README claims, as a table of experiments that anyone can measure again."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from demo.client.client import Client
from demo.runs.engine import Experiment
from demo.victim.models import Weights

Row = dict[str, object]

MATRICES = ("query", "key", "value", "attention-output", "ffn-in", "ffn-out")


def _where(row: Row) -> str:
    return f"{row['slice']} {','.join(map(str, row['layers']))}"  # type: ignore[call-overload]


def _dropped(row: Row) -> str:
    return f"{_where(row)}, dropout {row['dropout']}"


def _changes(row: Row) -> str:
    changed = [f"{name} {value}" for name, value in row["settings"]]  # type: ignore[attr-defined]
    return ", ".join(changed) or "as it is"


@dataclass(frozen=True)
class Claim:
    """Some experiments, on sentences of a certain size; `by` names the row of the printed table."""

    title: str
    experiments: tuple[Experiment, ...]
    sentences: int = 20
    words: tuple[int, int] = (1, 10)
    tokens: tuple[int, int] = (1, 512)  # without the marks at the ends
    batch: int = 1
    by: Callable[[Row], str] = _where

    def fits(self, sentence: str, tokens: int) -> bool:
        return self.words[0] <= len(sentence.split()) <= self.words[1] and self.tokens[0] <= tokens <= self.tokens[1]


def _on(part: str, *layers: int, attack: str = "search", seconds: float = 60, **more: object) -> Experiment:
    return Experiment("", slice=part, layers=layers, attack=attack, seconds=seconds, **more)  # type: ignore[arg-type]


_SPAN_PARTS = ("query", "key", "value")
_SPANS = tuple(_on(part, 0, attack="span") for part in _SPAN_PARTS)
_RANDOM = Weights("normal", 0.02)

CLAIMS = {
    "span": Claim("Span check, at most 10 words", _SPANS),
    "span-long": Claim("Span check, 20 to 30 tokens", _SPANS, words=(1, 99), tokens=(20, 30)),
    "layers": Claim("Everything, and each single layer", (_on("all"), *(_on("layer", k) for k in range(6)))),
    "components": Claim(
        "One matrix of layers 0 to 4", tuple(_on(part, k) for part in MATRICES for k in range(5)), sentences=5
    ),
    "last": Claim("One matrix of the last layer", tuple(_on(part, 5) for part in MATRICES)),
    "long": Claim(
        "15 to 20 tokens",
        (_on("all", seconds=120), _on("layer", 3, seconds=120), _on("query", 2, seconds=120)),
        words=(1, 99),
        tokens=(15, 20),
    ),
    "random": Claim(
        "Random weights, everything",
        tuple(_on("all", model=m, weights=_RANDOM) for m in ("tinybert4", "tinybert6")),
        by=lambda row: str(row["model"]),
    ),
    "papers": Claim(
        "TinyBERT4 with random weights, everything: the papers' attacks and ours",
        tuple(
            _on("all", attack=name, seconds=20, model="tinybert4", weights=_RANDOM)
            for name in ("dlg", "tag", "cosine", "search")
        ),
        sentences=10,
        by=lambda row: str(row["attack"]),
    ),
    "dropout": Claim(
        "Robust span check through dropout",
        tuple(
            _on(part, 0, attack="robust-span", client=Client(dropout=p))
            for part in _SPAN_PARTS
            for p in (0.1, 0.2, 0.3, 0.4)
        ),
        sentences=30,
        by=_dropped,
    ),
    "dropout-deep": Claim(
        "The search through dropout, in deeper layers",
        tuple(
            _on(part, k, client=Client(dropout=rate)) for part, k in (("layer", 3), ("query", 2)) for rate in (0.1, 0.3)
        ),
        sentences=10,
        by=_dropped,
    ),
    "grab": Claim(
        "GRAB on everything but the frozen embeddings",
        tuple(
            _on(
                "all",
                attack="grab",
                seconds=120,
                client=Client(dropout=rate, frozen_embeddings=True),
                settings=settings,
            )
            for rate in (0.1, 0.3)
            for settings in ((), (("start", "noise"),), (("start", "noise"), ("masks", False)))
        ),
        sentences=10,
        by=lambda row: f"dropout {row['dropout']}, {_changes(row)}",
    ),
    "grab-parts": Claim(
        "GRAB on one layer, and on one matrix",
        tuple(
            _on(part, k, attack="grab", seconds=120, client=Client(dropout=rate))
            for part, k in (("layer", 3), ("query", 2))
            for rate in (0.1, 0.3)
        ),
        sentences=10,
        by=_dropped,
    ),
    **{
        f"batch-{size}": Claim(
            f"Batches of {size}, everything", (_on("all", seconds=120),), sentences=32 if size == 8 else 30, batch=size
        )
        for size in (2, 4, 8)
    },
}


DECODER_PARTS = ("key", "value", "attention-output", "ffn-gate", "ffn-in", "ffn-out")


def _on_decoder(part: str, *layers: int, seconds: float = 60) -> Experiment:
    return _on(part, *layers, seconds=seconds, model="smollm2", knows_length=False)


def _decoders(title: str, *experiments: Experiment, **more: Any) -> Claim:
    return Claim(f"SmolLM2, {title}", experiments, **{"words": (1, 99), "tokens": (5, 20), "sentences": 5, **more})


CLAIMS |= {
    "decoder": _decoders("everything", _on_decoder("all"), sentences=20),
    "decoder-layers": _decoders("one layer", *(_on_decoder("layer", k) for k in (0, 8, 16, 24, 29)), sentences=20),
    "decoder-cells": _decoders(
        "one matrix", *(_on_decoder(part, k) for part in DECODER_PARTS for k in (1, 10, 20, 29))
    ),
    "decoder-query": _decoders("one query matrix", *(_on_decoder("query", k) for k in (1, 8, 15, 22, 29))),
    "decoder-words": _decoders("words without places", *(_on_decoder(part, 0) for part in ("query", "key", "value"))),
    "decoder-batch-8": _decoders("everything, batches of 8", _on_decoder("all"), sentences=24, batch=8),
    "decoder-batch-16": _decoders("everything, batches of 16", _on_decoder("all", seconds=120), sentences=32, batch=16),
    "decoder-paragraph": _decoders("everything, a paragraph", _on_decoder("all"), words=(1, 200), tokens=(100, 150)),
}


def table(rows: Sequence[Row], by: Callable[[Row], str]) -> str:
    """Markdown, a line per group: what was recovered, how fast, and whether a certificate was ever wrong."""
    lines = [
        "| | sentences | exact % | recover % (best) | in place % | ROUGE-1/2/L | with specials | median s "
        "| wrongly certified |",
        "|---" * 9 + "|",
    ]
    for name in dict.fromkeys(by(row) for row in rows):
        group = [row for row in rows if by(row) == name]

        def mean(key: str, group: list[Row] = group) -> str:
            return f"{100 * statistics.mean(float(row[key]) for row in group):.1f}"  # type: ignore[arg-type]

        rouge, special = ("/".join(mean(f"rouge{n}{end}") for n in ("1", "2", "L")) for end in ("", "_specials"))
        recover = f"{mean('recover_rate')} ({mean('best_recover_rate')})"
        seconds = statistics.median(float(row["seconds"]) for row in group)  # type: ignore[arg-type]
        wrong = sum(bool(row["certified"]) and not row["exact"] for row in group)
        lines.append(
            f"| {name} | {len(group)} | {mean('exact')} | {recover} | {mean('position_accuracy')} | {rouge} "
            f"| {special} | {seconds:.1f} | {wrong} |"
        )
    return "\n".join(lines)
