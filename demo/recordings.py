"""Runs to play without computing: `python -m demo.recordings` makes those in assets/recordings, from real runs."""

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from demo.engine import Experiment
from demo.messages import Message, messages
from demo.reports import reports, survey_title, sweep_title
from demo.surveys import STRENGTHS, cells, sweep

FOLDER = Path(__file__).parent.parent / "assets" / "recordings"
SENTENCE = "The patient was diagnosed with diabetes last week."

RECORDINGS = {
    "default": Experiment(SENTENCE, slice="query", layers=(3,)),  # what plays when the page opens
}
MAPPED = Experiment(SENTENCE, slice="query", layers=(3,), seconds=15)
SWEPT = replace(MAPPED, seconds=30)
SURVEYS = {  # what the tabs show until something else is asked for
    "map": (survey_title(MAPPED), tuple(cells(MAPPED))),
    "sweep": (sweep_title(SWEPT), tuple(sweep(SWEPT, "noise", STRENGTHS["noise"]))),
}


def recorded(run: Iterable[Message]) -> str:
    """A run as a file: `start` once, and marked as recorded."""
    kept: list[Message] = []
    for message in run:
        message = dict(message)
        start = message.pop("start", None)
        if not kept:
            message["start"] = {**start, "recorded": True}
        kept.append(message)
    return json.dumps({"messages": kept}, separators=(",", ":"), ensure_ascii=False)


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, experiment in tqdm(RECORDINGS.items(), unit="run"):
        run = list(messages(experiment))
        (FOLDER / f"{name}.json").write_text(recorded(run), encoding="utf-8")
        print(f"{name}: {len(run)} frames, {run[-1]['end']['headline']}", file=sys.stderr)
    for name, (title, experiments) in SURVEYS.items():
        *_, report = tqdm(reports(title, experiments), desc=name, unit="report")
        text = json.dumps({**report, "recorded": True}, separators=(",", ":"), ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
