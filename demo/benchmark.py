"""The engine without a screen: sentences from a file, speed, and the claims of the README.

python -m demo.benchmark attack --sentences FILE --slice query --layer 2 --attack certified --out results.jsonl
python -m demo.benchmark speed --model minilm --slice all
python -m demo.benchmark stream
python -m demo.benchmark claims --sentences FILE --out claims.jsonl
python -m demo.benchmark sweep --defense noise --strengths 1e-6,1e-4,1e-2 --sentences FILE --slice layer --layer 3
python -m demo.benchmark map --sentences FILE --limit 1 --seconds 30
python -m demo.benchmark tables --data FOLDER --only tag2,tag4 --out tables.jsonl
python -m demo.benchmark dp --sentences FILE --out dp.jsonl
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from demo import privacy, sentences, tables
from demo.attacks import ATTACKS
from demo.claims import CLAIMS, table
from demo.defenses import DEFENSES
from demo.defenses import parse as parse_defense
from demo.engine import Experiment
from demo.measuring import Row, batches, measure, summary
from demo.models import MODELS, Weights, load
from demo.slices import SLICES
from demo.speed import compare
from demo.stream import measure as measure_stream
from demo.surveys import cells, sweep


def attack_command(options: argparse.Namespace) -> None:
    report(each([asked(options)], options), options.out)


def sweep_command(options: argparse.Namespace) -> None:
    """One defense, from weak to strong, on every sentence."""
    report(each(sweep(asked(options), options.defense, options.strengths.split(",")), options), options.out)


def map_command(options: argparse.Namespace) -> None:
    """Every place of the model, the quick ones first."""
    report(each(cells(asked(options)), options), options.out)


def each(experiments: Iterable[Experiment], options: argparse.Namespace) -> list[Experiment]:
    """Every experiment on every batch of the file's sentences."""
    examples = chosen(options)
    return [one for experiment in experiments for one in batches(experiment, examples, options.batch)]


def asked(options: argparse.Namespace) -> Experiment:
    """The experiment that the options describe, for any sentence."""
    weights = Weights(options.weights, options.scale, options.seed) if options.weights else None
    defenses = tuple(parse_defense(text) for text in options.defense) if isinstance(options.defense, list) else ()
    return Experiment(
        "", model=options.model, weights=weights, slice=options.slice, layers=options.layer, attack=options.attack,
        knows_length=not options.unknown_length, knows_label=not options.unknown_label, seconds=options.seconds,
        steps=options.steps, seed=options.seed, device=options.device, dropout=options.dropout,
        frozen_embeddings=options.frozen_embeddings, defenses=defenses,
        settings=settings_from(options.set, options.attack),
    )  # fmt: skip


def chosen(options: argparse.Namespace) -> list[sentences.Example]:
    return sentences.read(options.sentences, options.column, options.min_words, options.max_words)[: options.limit]


def report(experiments: Sequence[Experiment], out: str | None) -> None:
    """A row for each on stdout as it comes, and a summary on stderr, whatever happens on the way."""
    rows: list[Row] = []
    try:
        for row in measure(experiments, out):
            rows.append(row)
            print(json.dumps(row), flush=True)
    finally:
        if rows:
            print(summary(rows), file=sys.stderr)


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
    names, examples = named(options.only, CLAIMS, "claim"), sentences.read(options.sentences)
    for name in names:
        claim = CLAIMS[name]
        tokenizer = load("minilm").tokenizer
        fitting = [e for e in examples if claim.fits(e.sentence, len(tokenizer.tokenize(e.sentence)))]
        chosen = fitting[: options.limit or claim.sentences]
        experiments = [one for x in claim.experiments for one in batches(x, chosen, claim.batch)]
        print(f"\n### {claim.title}\n\n{table(list(measure(experiments, options.out)), claim.by)}", flush=True)


def tables_command(options: argparse.Namespace) -> None:
    """The papers' tables beside ours; each is written as soon as it is whole."""
    for name in named(options.only, tables.TABLES, "table"):
        path = tables.make(name, Path(options.data), options.limit, options.seconds, options.out)
        table = tables.TABLES[name]
        print(f"\n### {table.title}\n\n{table.source}. {table.about}\n\n{markdown(path)}", flush=True)


def dp_command(options: argparse.Namespace) -> None:
    """How much noise stops the leak."""
    examples = sentences.read(options.sentences, max_words=10)[: options.limit]
    print(markdown(privacy.make(examples, options.seconds, options.out)))


def named(only: str | None, known: Iterable[str], what: str) -> list[str]:
    """a,b -> those of the known ones; all of them where none is named."""
    names = only.split(",") if only else list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown {what} {unknown[0]!r}: choose from {', '.join(known)}")
    return names


def markdown(path: Path) -> str:
    header, rows = tables.read(path.stem)
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows])


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

    many = argparse.ArgumentParser(add_help=False, parents=[common])
    many.add_argument("--sentences", required=True, help="plain text, .tsv or .csv with a header, or CoLA's form")
    many.add_argument("--column", default="sentence")
    many.add_argument("--limit", type=_positive, help="only the first N")
    many.add_argument("--min-words", type=int, default=0)
    many.add_argument("--max-words", type=int)
    many.add_argument("--attack", choices=ATTACKS, default="best")
    many.add_argument("--seconds", type=float, default=60)
    many.add_argument("--steps", type=_positive, default=1_000_000)
    many.add_argument("--seed", type=int, default=0)
    many.add_argument("--unknown-length", action="store_true", help="the attacker is not told the length")
    many.add_argument("--unknown-label", action="store_true", help="the attacker is not told the label")
    many.add_argument("--dropout", type=_rate, default=0.0, help="the client's rate, 0 to 0.4, or own: the model's")
    many.add_argument("--frozen-embeddings", action="store_true", help="the client does not train its embeddings")
    many.add_argument("--batch", type=_positive, default=1, help="sentences in one gradient, 1 to 8")
    many.add_argument("--set", action="append", default=[], help="change the attack, e.g. masks=false")
    many.add_argument("--out", help="append the results here too; rows already there are not measured again")
    defend: dict[str, Any] = {
        "action": "append",
        "default": [],
        "help": "e.g. noise=1e-3 or prune=0.9; several in their order",
    }

    attack = commands.add_parser("attack", parents=[many], help="attack every sentence of a file")
    attack.set_defaults(act=attack_command)
    attack.add_argument("--defense", **defend)

    sweeping = commands.add_parser("sweep", parents=[many], help="the same under one defense, from weak to strong")
    sweeping.set_defaults(act=sweep_command)
    sweeping.add_argument("--defense", choices=[name for name in DEFENSES if name != "sign"], required=True)
    sweeping.add_argument("--strengths", required=True, help="e.g. 1e-6,1e-4,1e-2")

    leaks = commands.add_parser(
        "map", parents=[many], help="the same on every place of the model, the quick ones first"
    )
    leaks.set_defaults(act=map_command)
    leaks.add_argument("--defense", **defend)

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

    papers = commands.add_parser("tables", help="the papers' tables beside ours, into assets/results")
    papers.set_defaults(act=tables_command)
    papers.add_argument("--data", required=True, help="folder with cola_dev.tsv, sst2_dev.tsv and rte_dev.tsv")
    papers.add_argument("--out", required=True, help="every run is kept here; those already there are not run again")
    papers.add_argument("--only", help=f"some of {','.join(tables.TABLES)}")
    papers.add_argument("--limit", type=_positive, default=3, help="sentences of each file")
    papers.add_argument("--seconds", type=float, default=20, help="for each sentence and attack")

    noise = commands.add_parser("dp", help="how much noise stops the leak, into assets/results/dp.csv")
    noise.set_defaults(act=dp_command)
    noise.add_argument("--sentences", required=True)
    noise.add_argument("--out", required=True, help="every run is kept here; those already there are not run again")
    noise.add_argument("--limit", type=_positive, default=10)
    noise.add_argument("--seconds", type=float, default=30, help="for each sentence")
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


if __name__ == "__main__":
    sys.exit(main())
