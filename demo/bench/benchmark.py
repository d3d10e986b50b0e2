"""The engine without a screen: sentences from a file, speed, and the claims of the README.

python -m demo.benchmark attack --sentences FILE --slice query --layer 2 --attack certified --out results.jsonl
python -m demo.benchmark speed --model minilm --slice all
python -m demo.benchmark stream
python -m demo.benchmark claims --sentences FILE --out claims.jsonl
python -m demo.benchmark sweep --defense noise --strengths 1e-6,1e-4,1e-2 --sentences FILE --slice layer --layer 3
python -m demo.benchmark map --sentences FILE --limit 1 --seconds 30
python -m demo.benchmark tables --data FOLDER --only tag2,tag4 --out tables.jsonl
python -m demo.benchmark dp --sentences FILE --out dp.jsonl
python -m demo.benchmark defenses --sentences FILE --out defenses.jsonl
python -m demo.benchmark calibration --sentences FILE
python -m demo.benchmark document
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from demo.attacker.attacks import ATTACKS
from demo.attacker.attacks.chances import CURVES
from demo.bench import calibration, defense_tables, documents, paper_tables, sentences
from demo.bench.options import parser
from demo.bench.our_claims import CLAIMS, table
from demo.bench.rows import Row, batches, measure, summary
from demo.bench.speed import compare
from demo.bench.stream import measure as measure_stream
from demo.client.client import Client, of_client, with_text
from demo.client.defenses import parse as parse_defense
from demo.runs.engine import Experiment
from demo.runs.surveys import cells, sweep
from demo.settings import settings_of
from demo.victim.models import Weights, load


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
    texts = options.defense if isinstance(options.defense, list) else []
    client = Client(**{field.name: getattr(options, field.name) for field in settings_of(Client)})
    for text in filter(of_client, texts):
        client = with_text(client, text)
    return Experiment(
        "",
        model=options.model,
        weights=weights,
        slice=options.slice,
        layers=options.layer,
        attack=options.attack,
        knows_length=not options.unknown_length,
        knows_label=not options.unknown_label,
        seconds=options.seconds,
        steps=options.steps,
        seed=options.seed,
        device=options.device,
        client=client,
        defenses=tuple(parse_defense(text) for text in texts if not of_client(text)),
        settings=settings_from(options.set, options.attack),
    )


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
    for name in named(options.only, paper_tables.TABLES, "table"):
        path = paper_tables.make(name, Path(options.data), options.limit, options.seconds, options.out)
        table = paper_tables.TABLES[name]
        print(f"\n### {table.title}\n\n{table.source}. {table.about}\n\n{markdown(path)}", flush=True)


def study_command(options: argparse.Namespace) -> None:
    """How much noise stops the leak, or what else does."""
    examples = sentences.read(options.sentences, max_words=10)[: options.limit]
    print(markdown(defense_tables.make(options.command, examples, options.seconds, options.out)))


def document_command(options: argparse.Namespace) -> None:
    """The document with the tables as they are in assets/results."""
    text = documents.DOCUMENT.read_text(encoding="utf-8")
    documents.DOCUMENT.write_text(documents.updated(text), encoding="utf-8")


def calibration_command(options: argparse.Namespace) -> None:
    """The curves that half of the runs ask for, and what they and those in use are worth on the other half."""
    examples = sentences.read(options.sentences, min_words=3, max_words=12)
    runs = calibration.watched(calibration.diet(examples, options.limit, options.seconds, options.seed))
    fitted, held_out = runs[::2], runs[1::2]
    curves = calibration.fitted(fitted)
    for kind, curve in curves.items():
        print(f'    "{kind}": {curve},')
    for name, used in (("fitted now", curves), ("in use", CURVES)):
        told = calibration.reliability(held_out, used)
        print(f"\nThe curves {name}, on {len(held_out)} runs that they were not fitted to:\n\n{told}")


def named(only: str | None, known: Iterable[str], what: str) -> list[str]:
    """a,b -> those of the known ones; all of them where none is named."""
    names = only.split(",") if only else list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown {what} {unknown[0]!r}: choose from {', '.join(known)}")
    return names


def markdown(path: Path) -> str:
    header, rows = paper_tables.read(path.stem)
    return documents.markdown([header, *rows])


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


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "attack": attack_command,
    "sweep": sweep_command,
    "map": map_command,
    "speed": speed_command,
    "stream": stream_command,
    "claims": claims_command,
    "tables": tables_command,
    "dp": study_command,
    "defenses": study_command,
    "calibration": calibration_command,
    "document": document_command,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(f"{__doc__}".splitlines()[0]).parse_args(arguments)
    try:
        COMMANDS[options.command](options)
        return 0
    except (ValueError, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
