"""The command line of `python -m demo.benchmark`: what each command takes."""

import argparse
from dataclasses import Field
from typing import Any

from demo.attacker.attacks import ATTACKS, current
from demo.bench.our_claims import CLAIMS
from demo.bench.paper_tables import TABLES
from demo.client.client import WERE_DEFENSES, Client
from demo.runs.surveys import STRENGTHS
from demo.settings import read, settings_of
from demo.victim.models import MODELS
from demo.victim.slices import SLICES


def parser(about: str) -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m demo.benchmark", description=about)
    commands = top.add_subparsers(dest="command", required=True)
    common = _of_a_leak()
    _add_attacks(commands, _of_many_runs(common))
    _add_speeds(commands, common)
    _add_studies(commands)
    return top


def _of_a_leak() -> argparse.ArgumentParser:
    """What every command takes that leaks something."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--model", choices=MODELS, default="minilm")
    common.add_argument("--weights", choices=["pretrained", "normal", "uniform"], help="default: what can be had")
    common.add_argument("--scale", type=float, default=0.02, help="sigma of normal, range of uniform weights")
    common.add_argument("--slice", choices=SLICES, default="query")
    common.add_argument("--layer", type=_layers, default=(2,), help="from 0; 0,3 for two")
    common.add_argument("--device", help="cuda, mps or cpu; default: the best there is")
    return common


def _of_many_runs(common: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """What every command takes that attacks the sentences of a file."""
    many = argparse.ArgumentParser(add_help=False, parents=[common])
    many.add_argument("--sentences", required=True, help="plain text, .tsv or .csv with a header, or CoLA's form")
    many.add_argument("--column", default="sentence")
    many.add_argument("--limit", type=_positive, help="only the first N")
    many.add_argument("--min-words", type=int, default=0)
    many.add_argument("--max-words", type=int)
    many.add_argument("--attack", choices=ATTACKS, type=current, default="best")
    many.add_argument("--seconds", type=float, default=60)
    many.add_argument("--steps", type=_positive, default=1_000_000)
    many.add_argument("--seed", type=int, default=0)
    many.add_argument("--unknown-length", action="store_true", help="the attacker is not told the length")
    many.add_argument("--unknown-label", action="store_true", help="the attacker is not told the label")
    for field in settings_of(Client):
        _add_field(many, field)
    many.add_argument("--batch", type=_positive, default=1, help="sentences in one gradient, 1 to 16")
    many.add_argument("--set", action="append", default=[], help="change the attack, e.g. masks=false")
    many.add_argument("--out", help="append the results here too; rows already there are not measured again")
    return many


def _add_field(many: argparse.ArgumentParser, field: Field) -> None:
    """An option for one of the client's fields: --frozen-embeddings, --dropout 0.1, --task label."""
    told, name = field.metadata, f"--{field.name.replace('_', '-')}"
    if isinstance(field.default, bool):
        many.add_argument(name, action="store_true", help=told["help"])
        return
    if told["choices"]:
        many.add_argument(name, choices=list(filter(None, told["choices"])), default=field.default, help=told["help"])
        return
    unset = f", or {told['unset']}: the model's" if told["unset"] else ""
    bounds = f"{told['low']:g} to {told['high']:g}{unset}"

    def value(text: str) -> Any:
        try:
            return read(field, text)
        except ValueError:
            kind = "whole number" if isinstance(field.default, int) else "rate" if told["high"] <= 1 else "number"
            raise argparse.ArgumentTypeError(f"{text!r} is not a {kind} from {bounds}") from None

    many.add_argument(name, type=value, default=field.default, help=f"{told['help']}: {bounds}")


def _add_attacks(commands: Any, many: argparse.ArgumentParser) -> None:
    defend: dict[str, Any] = {
        "action": "append",
        "default": [],
        "help": "e.g. noise=1e-3 or prune=0.9; several in their order",
    }

    attack = commands.add_parser("attack", parents=[many], help="attack every sentence of a file")
    attack.add_argument("--defense", **defend)

    sweeping = commands.add_parser("sweep", parents=[many], help="the same under one defense, from weak to strong")
    sweeping.add_argument("--defense", choices=[*STRENGTHS, *WERE_DEFENSES], required=True)
    sweeping.add_argument("--strengths", required=True, help="e.g. 1e-6,1e-4,1e-2")

    leaks = commands.add_parser(
        "map", parents=[many], help="the same on every place of the model, the quick ones first"
    )
    leaks.add_argument("--defense", **defend)


def _add_speeds(commands: Any, common: argparse.ArgumentParser) -> None:
    speed = commands.add_parser("speed", parents=[common], help="plain autograd against the matcher")
    speed.add_argument("--tokens", type=_positive, default=11, help="tokens of the sentence, with its ends")
    speed.add_argument("--rounds", type=_positive, default=5)
    speed.add_argument(
        "--growth", action=argparse.BooleanOptionalAction, default=True, help="also by tokens and layers"
    )
    speed.add_argument("--json", action="store_true")

    stream = commands.add_parser("stream", help="what it costs to watch: the engine alone against the live server")
    stream.add_argument("--seconds", type=float, default=8, help="of each run")
    stream.add_argument("--rounds", type=_positive, default=3)
    stream.add_argument("--device", help="cuda, mps or cpu; default: the best there is")


def _add_studies(commands: Any) -> None:
    claims = commands.add_parser("claims", help="measure what the README claims; stop and resume at will")
    claims.add_argument("--sentences", required=True)
    claims.add_argument("--out", required=True)
    claims.add_argument("--only", help=f"some of {','.join(CLAIMS)}")
    claims.add_argument("--limit", type=_positive, help="fewer sentences than the claim asks for")

    papers = commands.add_parser("tables", help="the papers' tables beside ours, into assets/results")
    papers.add_argument("--data", required=True, help="folder with cola_dev.tsv, sst2_dev.tsv and rte_dev.tsv")
    papers.add_argument("--out", required=True, help="every run is kept here; those already there are not run again")
    papers.add_argument("--only", help=f"some of {','.join(TABLES)}")
    papers.add_argument("--limit", type=_positive, default=3, help="sentences of each file")
    papers.add_argument("--seconds", type=float, default=20, help="for each sentence and attack")

    calibration = commands.add_parser("calibration", help="how many of the words that are called sure are right")
    calibration.add_argument("--sentences", required=True)
    calibration.add_argument("--limit", type=_positive, default=100, help="runs, each of another sentence")
    calibration.add_argument("--seconds", type=float, default=6, help="for each")
    calibration.add_argument("--seed", type=int, default=0, help="of the sentences and places drawn")

    commands.add_parser("document", help="write the measured tables into assets/docs/results.md")

    told = {"dp": "how much noise stops the leak", "defenses": "what stops the leak besides noise"}
    for name, words in told.items():
        study = commands.add_parser(name, help=f"{words}, into assets/results/{name}.csv")
        study.add_argument("--sentences", required=True)
        study.add_argument("--out", required=True, help="every run is kept here; those already there are not run again")
        study.add_argument("--limit", type=_positive, default=10)
        study.add_argument("--seconds", type=float, default=30, help="for each sentence")


def _layers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a layer, nor a list like 0,3") from None


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)
