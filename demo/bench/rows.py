"""Experiments run to their ends, and what came of them as rows: printed, written, and not measured twice."""

import json
import os
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TextIO

from tqdm import tqdm

from demo.bench.sentences import Example
from demo.client.client import changes_in, of_client
from demo.client.defenses import told_of
from demo.runs.engine import Case, Experiment, run, set_up
from demo.victim.models import MODELS, Weights
from demo.victim.slices import SLICES

Row = dict[str, object]


def result(experiment: Experiment) -> Row:
    """Runs an experiment to its end and tells what came of it.

    Where clients are averaged, the scores and the reconstruction are those of the row's own sentence, so that rows with
    and without that defense can be set side by side; `sentences_exact` counts those of all clients, as each is a leak.
    """
    case: Case = set_up(experiment)
    *_, frame = run(experiment, case)
    shot = frame.snapshot
    return {
        **describe(experiment),
        "sentence": experiment.sentence,
        "reconstruction": "\n".join(frame.texts[: len(case.secret.sentences)]),
        "tokens": len(case.secret.ids) - 2 * len(case.secret.sentences),
        "certified": frame.certified,
        "residual": shot.certificate.residual if shot.certificate else None,
        "nats": shot.nats,
        **asdict(frame.own),
        "clients": case.clients,
        "sentences_exact": sum(one.exact for one in frame.each),
        "masks_right": None if frame.masks_right is None else float(frame.masks_right.mean()),
        "best_recover_rate": frame.best_recover_rate,
        "seconds": round(shot.seconds, 3),
        "steps": shot.step,
        "parameters": case.parameters,
        "parameter_share": case.parameter_share,
        "likeness": case.likeness,
        "device": str(case.model.device),
    }


def describe(experiment: Experiment) -> Row:
    """The settings of a row; with the sentence, they tell whether it was measured already."""
    weights = experiment.weights or Weights(MODELS[experiment.model].default)
    return {
        "model": experiment.model,
        "weights": weights.kind if weights.kind == "pretrained" else f"{weights.kind}({weights.scale:g})",
        "slice": experiment.slice,
        "layers": list(experiment.layers) if SLICES[experiment.slice].of_layer else [],
        "attack": experiment.attack,
        "budget": experiment.seconds,
        "seed": experiment.seed,
        "labels": list(experiment.labels),
        "batch": max(1, len(experiment.sentences)),
        **asdict(experiment.client),
        "defenses": [told_of(defense) for defense in experiment.defenses],
        "settings": [list(setting) for setting in experiment.settings],
        "knows": [name for name in ("length", "label") if getattr(experiment, f"knows_{name}")],
    }


def measure(experiments: Sequence[Experiment], out: str | None) -> Iterator[Row]:
    """Yields a row per experiment, written to `out` as it comes; those already in the file are not run again."""
    done = {_key(row): row for row in _written(out)}
    failures = 0
    with open(out, "a", encoding="utf-8") if out else _nowhere() as file:
        for experiment in tqdm(experiments, file=sys.stderr, unit="sentence"):
            known = done.get(_key({**describe(experiment), "sentence": experiment.sentence}))
            try:
                row = known or result(experiment)
            except ValueError as problem:  # this sentence cannot be had; the others can
                failures += 1
                tqdm.write(f"error: {problem}", file=sys.stderr)
                continue
            if not known:
                print(json.dumps(row), file=file, flush=True)
            yield row
    if failures:
        raise ValueError(f"{failures} of {len(experiments)} sentences could not be attacked")


def summary(rows: Sequence[Row]) -> str:
    def mean(key: str) -> float:
        return 100 * statistics.mean(float(row[key]) for row in rows)  # type: ignore[arg-type]

    seconds = statistics.median(float(row["seconds"]) for row in rows)  # type: ignore[arg-type]
    wrong = sum(bool(row["certified"]) and not row["exact"] for row in rows)
    return (
        f"{len(rows)} sentences: exact {mean('exact'):.1f} %, certified {mean('certified'):.1f} % (wrongly: {wrong}), "
        f"recover rate {mean('recover_rate'):.1f} %, in place {mean('position_accuracy'):.1f} %, ROUGE-1/2/L "
        f"{mean('rouge1'):.1f}/{mean('rouge2'):.1f}/{mean('rougeL'):.1f}, median {seconds:.1f} s"
    )


def batches(base: Experiment, examples: Sequence[Example], size: int) -> list[Experiment]:
    """The experiment on the examples, so many at a time, in their order; the last batch may be smaller."""
    groups = [examples[start : start + size] for start in range(0, len(examples), size)]
    return [
        replace(base, sentence="\n".join(e.sentence for e in group), labels=tuple(e.label for e in group))
        for group in groups
    ]


def _key(row: Row) -> str:
    """Of rows from before a client's field was there, too."""
    plain = {**describe(Experiment("")), "sentence": ""}
    told: Row = {**plain, **row, "defenses": []}
    for text in row.get("defenses", ()):  # type: ignore[attr-defined]
        told |= changes_in(text) if of_client(text) else {"defenses": [*told["defenses"], text]}  # type: ignore[misc]
    return json.dumps([told[name] for name in plain])


def _written(out: str | None) -> Iterable[Row]:
    if not out or not Path(out).exists():
        return []
    return [json.loads(line) for line in Path(out).read_text(encoding="utf-8").splitlines() if line.strip()]


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")
