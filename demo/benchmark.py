"""The engine without a screen: sentences from a file, speed, and the claims of the README.

python -m demo.benchmark attack --sentences FILE --slice query --layer 2 --attack certified --out results.jsonl
python -m demo.benchmark speed --model minilm --slice all
python -m demo.benchmark stream
python -m demo.benchmark claims --sentences FILE --out claims.jsonl
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TextIO

from tqdm import tqdm

from demo import sentences
from demo.attacks import ATTACKS
from demo.claims import CLAIMS, table
from demo.engine import Case, Experiment, run, set_up
from demo.models import MODELS, Weights, load
from demo.slices import SLICES
from demo.speed import compare
from demo.stream import measure as measure_stream

Row = dict[str, object]


def result(experiment: Experiment) -> Row:
    """Runs an experiment to its end and tells what came of it."""
    case: Case = set_up(experiment)
    *_, frame = run(experiment, case)
    shot = frame.snapshot
    return {
        **describe(experiment),
        "sentence": experiment.sentence,
        "reconstruction": frame.text,
        "tokens": len(case.secret.ids) - 2 * len(case.secret.sentences),
        "certified": frame.certified,
        "residual": shot.certificate.residual if shot.certificate else None,
        **asdict(frame.scores),
        "masks_right": None if frame.masks_right is None else float(frame.masks_right.mean()),
        "best_recover_rate": frame.best_recover_rate,
        "seconds": round(shot.seconds, 3),
        "steps": shot.step,
        "parameters": case.parameters,
        "parameter_share": case.parameter_share,
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
        "dropout": experiment.dropout,
        "frozen_embeddings": experiment.frozen_embeddings,
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


def attack_command(options: argparse.Namespace) -> None:
    examples = sentences.read(options.sentences, options.column, options.min_words, options.max_words)
    weights = Weights(options.weights, options.scale, options.seed) if options.weights else None
    base = Experiment(
        "", model=options.model, weights=weights, slice=options.slice, layers=options.layer, attack=options.attack,
        knows_length=not options.unknown_length, knows_label=not options.unknown_label, seconds=options.seconds,
        steps=options.steps, seed=options.seed, device=options.device, dropout=options.dropout,
        frozen_embeddings=options.frozen_embeddings,
        settings=settings_from(options.set, options.attack),
    )  # fmt: skip
    experiments = batches(base, examples[: options.limit], options.batch)
    rows = []
    try:
        for row in measure(experiments, options.out):
            rows.append(row)
            print(json.dumps(row), flush=True)
    finally:
        if rows:
            print(summary(rows), file=sys.stderr)


def batches(base: Experiment, examples: Sequence[sentences.Example], size: int) -> list[Experiment]:
    """The experiment on the examples, so many at a time, in their order; the last batch may be smaller."""
    groups = [examples[start : start + size] for start in range(0, len(examples), size)]
    return [
        replace(base, sentence="\n".join(e.sentence for e in group), labels=tuple(e.label for e in group))
        for group in groups
    ]


def settings_from(texts: Sequence[str], attack: str) -> tuple[tuple[str, float | str | bool], ...]:
    """masks=false -> ("masks", False), as the attack's own field is of that kind."""
    found: list[tuple[str, float | str | bool]] = []
    for text in texts:
        name, _, value = text.partition("=")
        default = getattr(ATTACKS[attack], name, None)
        if isinstance(default, bool):
            if value not in ("true", "false"):
                raise ValueError(f"{name} is {value!r}: give true or false")
            found.append((name, value == "true"))
        elif isinstance(default, int | float):
            try:
                found.append((name, type(default)(value)))
            except ValueError:
                raise ValueError(f"{name} is {value!r}: give a number") from None
        else:
            found.append((name, value))
    return tuple(found)


def claims_command(options: argparse.Namespace) -> None:
    """Every figure of the README's results, in one resumable run."""
    names = options.only.split(",") if options.only else list(CLAIMS)
    unknown = [name for name in names if name not in CLAIMS]
    if unknown:
        raise ValueError(f"unknown claim {unknown[0]!r}: choose from {', '.join(CLAIMS)}")
    examples = sentences.read(options.sentences)
    for name in names:
        claim = CLAIMS[name]
        tokenizer = load("minilm").tokenizer
        fitting = [e for e in examples if claim.fits(e.sentence, len(tokenizer.tokenize(e.sentence)))]
        chosen = fitting[: options.limit or claim.sentences]
        experiments = [one for x in claim.experiments for one in batches(x, chosen, claim.batch)]
        print(f"\n### {claim.title}\n\n{table(list(measure(experiments, options.out)), claim.by)}", flush=True)


def speed_command(options: argparse.Namespace) -> None:
    weights = Weights(options.weights, options.scale) if options.weights else None
    model = load(options.model, weights, options.device)
    report = compare(model, options.slice, options.layer, options.rounds, options.tokens, options.growth)
    print(json.dumps(report) if options.json else report_text(report))


def report_text(report: dict) -> str:
    lines = [
        f"{report['model']}, {report['slice']} {report['layers'] or ''}, {report['tokens']} tokens, {report['device']}"
    ]
    lines.append(f"plain autograd          {report['plain_ms']:8.1f} ms a candidate, {report['plain_peak_mb']:.0f} MB")
    for rows, spent in report["matcher_ms"].items():
        ratio, memory = report["ratio_per_candidate"][rows], report["matcher_peak_mb"][rows]
        lines.append(f"matcher, {rows:>2} rows        {spent:8.1f} ms a candidate, {memory:.0f} MB: {ratio:.1f}x")
    for what in ("by_tokens", "by_layer"):
        for value, (plain, ours) in report.get(what, {}).items():
            lines.append(
                f"{what[3:]:>6} {value:>3}: plain {plain:7.1f} ms, matcher {ours:6.1f} ms: {plain / ours:.1f}x"
            )
    return "\n".join(lines)


def stream_command(options: argparse.Namespace) -> None:
    print(json.dumps(measure_stream(options.seconds, options.rounds, options.device), indent=2))


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m demo.benchmark", description=__doc__.splitlines()[0])
    commands = top.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--model", choices=MODELS, default="minilm")
    common.add_argument("--weights", choices=["pretrained", "normal", "uniform"], help="default: what can be had")
    common.add_argument("--scale", type=float, default=0.02, help="sigma of normal, range of uniform weights")
    common.add_argument("--slice", choices=SLICES, default="query")
    common.add_argument("--layer", type=_layers, default=(2,), help="from 0; 0,3 for two")
    common.add_argument("--device", help="cuda, mps or cpu; default: the best there is")

    attack = commands.add_parser("attack", parents=[common], help="attack every sentence of a file")
    attack.set_defaults(act=attack_command)
    attack.add_argument("--sentences", required=True, help="plain text, .tsv or .csv with a header, or CoLA's form")
    attack.add_argument("--column", default="sentence")
    attack.add_argument("--limit", type=_positive, help="only the first N")
    attack.add_argument("--min-words", type=int, default=0)
    attack.add_argument("--max-words", type=int)
    attack.add_argument("--attack", choices=ATTACKS, default="best")
    attack.add_argument("--seconds", type=float, default=60)
    attack.add_argument("--steps", type=_positive, default=1_000_000)
    attack.add_argument("--seed", type=int, default=0)
    attack.add_argument("--unknown-length", action="store_true", help="the attacker is not told the length")
    attack.add_argument("--unknown-label", action="store_true", help="the attacker is not told the label")
    attack.add_argument("--dropout", type=_rate, default=0.0, help="the client's rate, 0 to 0.4, or own: the model's")
    attack.add_argument("--frozen-embeddings", action="store_true", help="the client does not train its embeddings")
    attack.add_argument("--batch", type=_positive, default=1, help="sentences in one gradient, 1 to 8")
    attack.add_argument("--set", action="append", default=[], help="change the attack, e.g. masks=false")
    attack.add_argument("--out", help="append the results here too; rows already there are not measured again")

    speed = commands.add_parser("speed", parents=[common], help="plain autograd against the matcher")
    speed.set_defaults(act=speed_command)
    speed.add_argument("--tokens", type=_positive, default=11, help="length of the sentence, [CLS] and [SEP] included")
    speed.add_argument("--rounds", type=_positive, default=5)
    speed.add_argument(
        "--growth", action=argparse.BooleanOptionalAction, default=True, help="also by tokens and layers"
    )
    speed.add_argument("--json", action="store_true")

    stream = commands.add_parser("stream", help="what it costs to watch: the engine alone against the live server")
    stream.set_defaults(act=stream_command)
    stream.add_argument("--seconds", type=float, default=8, help="of each run")
    stream.add_argument("--rounds", type=_positive, default=3)
    stream.add_argument("--device", help="cuda, mps or cpu; default: the best there is")

    claims = commands.add_parser("claims", help="measure what the README claims; stop and resume at will")
    claims.set_defaults(act=claims_command)
    claims.add_argument("--sentences", required=True)
    claims.add_argument("--out", required=True)
    claims.add_argument("--only", help=f"some of {','.join(CLAIMS)}")
    claims.add_argument("--limit", type=_positive, help="fewer sentences than the claim asks for")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        options.act(options)
        return 0
    except (ValueError, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2


def _layers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a layer, nor a list like 0,3") from None


def _rate(text: str) -> float | None:
    if text == "own":
        return None
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate like 0.1, nor own") from None


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def _key(row: Row) -> str:
    names = (*describe(Experiment("")), "sentence")
    return json.dumps([row.get(name) for name in names])


def _written(out: str | None) -> Iterable[Row]:
    if not out or not Path(out).exists():
        return []
    return [json.loads(line) for line in Path(out).read_text(encoding="utf-8").splitlines() if line.strip()]


def _nowhere() -> TextIO:
    import os

    return open(os.devnull, "w", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
