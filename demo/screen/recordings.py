"""Runs to play without computing: `python -m demo.recordings` makes those in assets/recordings, from real runs.

    python -m demo.recordings --only lesson-span,lesson-dlg

A recording is one JSON object, the same whether it is made here or saved from the page (assets/stage/recording.js):

    {"format": "leakscope-run", "version": 1, "messages": [{"start": …, "frame": …}, {"frame": …}, …, {…, "end": …}]}

The messages are those of demo.screen.messages, without the run's id: `start` in the first only, `end` in the last.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from demo.client.client import Client
from demo.client.defenses import Noise
from demo.runs.engine import Experiment
from demo.runs.surveys import STRENGTHS, cells, sweep
from demo.screen.comparisons import READY, changed, comparison
from demo.screen.messages import GAP, Message, messages
from demo.screen.recording_format import FORMAT, VERSION, Recording
from demo.screen.reports import reports, survey_title, sweep_title

FOLDER = Path(__file__).parents[2] / "assets" / "recordings"
SENTENCE = "The patient was diagnosed with diabetes last week."

NOISY = Experiment(SENTENCE, slice="layer", layers=(3,), attack="search")
RECORDINGS = {
    "default": Experiment(SENTENCE, slice="query", layers=(3,)),  # what plays when the page opens
    "lesson-all": Experiment(SENTENCE, slice="all", layers=()),
    "lesson-span": Experiment(SENTENCE, slice="query", layers=(0,), attack="span"),
    "lesson-dlg": Experiment(SENTENCE, slice="layer", layers=(3,), attack="dlg", seconds=10),
    "lesson-dropout": Experiment(
        SENTENCE, slice="value", layers=(0,), attack="robust-span", client=Client(dropout=0.3)
    ),
    "lesson-dropout-deep": Experiment(
        SENTENCE, slice="query", layers=(2,), attack="search", client=Client(dropout=0.1)
    ),
    "lesson-noise-weak": replace(NOISY, defenses=(Noise(1e-6),)),
    "lesson-noise-strong": replace(NOISY, defenses=(Noise(0.1),)),
    "lesson-chat": Experiment(SENTENCE, model="smollm2", slice="ffn-out", layers=(15,), attack="search"),
}
MAPPED = Experiment(SENTENCE, slice="query", layers=(3,), seconds=30)
SWEPT = replace(MAPPED, slice="layer")
SURVEYS = {  # what the tabs show until something else is asked for
    "map": (survey_title(MAPPED), tuple(cells(MAPPED))),
    "sweep": (sweep_title(SWEPT), tuple(sweep(SWEPT, "noise", STRENGTHS["noise"]))),
}
PACE = 0.15  # seconds between two frames: a long run that fits into a small file
LONG = ("lesson-dlg", "lesson-noise-strong", "lesson-chat")
COMPARED = replace(MAPPED, seconds=20)
COMPARISONS = {"compare": [changed(COMPARED, change) for change in next(iter(READY.values()))]}


def recorded(run: Iterable[Message]) -> str:
    """A run as a file: `start` once, and marked as recorded."""
    kept: list[Message] = []
    for message in run:
        message = {part: told for part, told in message.items() if part != "run"}
        start = message.pop("start", None)
        if not kept:
            message["start"] = {**start, "recorded": True}
        kept.append(message)
    file = {"format": FORMAT, "version": VERSION, "messages": kept}
    text = json.dumps(file, separators=(",", ":"), ensure_ascii=False)
    Recording.model_validate_json(text)  # what the browser would refuse is not written
    return text


def same_run(one: Experiment, other: Experiment) -> bool:
    """Whether they differ in no more than the time that they may take."""
    return replace(one, seconds=other.seconds) == other


def main() -> None:
    wanted = parse()
    FOLDER.mkdir(exist_ok=True)
    for name in tqdm([name for name in RECORDINGS if name in wanted], unit="run"):
        gap = PACE if name in LONG else GAP
        run = [message for message in messages(RECORDINGS[name], gap=gap) if "frame" in message]
        (FOLDER / f"{name}.json").write_text(recorded(run), encoding="utf-8")
        print(f"{name}: {len(run)} frames, {run[-1]['end']['headline']}", file=sys.stderr)
    for name, (title, experiments) in SURVEYS.items():
        if name not in wanted:
            continue
        *_, report = tqdm(reports(title, experiments), desc=name, unit="report")
        for row, experiment in zip(report["readings"], experiments, strict=True):
            same = [run for run, other in RECORDINGS.items() if same_run(other, experiment)]
            row |= {"recording": same[0]} if same else {}
        text = json.dumps({**report, "recorded": True}, separators=(",", ":"), ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")
    for name, (a, b) in COMPARISONS.items():
        if name not in wanted:
            continue
        told = [message for message in tqdm(comparison(a, b, PACE), desc=name) if "frames" in message]
        text = json.dumps({"messages": told}, separators=(",", ":"), ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")
        print(f"{name}: {told[-1]['said']}", file=sys.stderr)


def parse() -> list[str]:
    """The names of the recordings to make: all, unless some are named."""
    known = [*RECORDINGS, *SURVEYS, *COMPARISONS]
    parser = argparse.ArgumentParser(description="Makes the recordings in assets/recordings, from real runs.")
    parser.add_argument("--only", default=",".join(known), metavar="NAMES", help=f"some of {', '.join(known)}")
    wanted = [name.strip() for name in parser.parse_args().only.split(",")]
    wrong = [name for name in wanted if name not in known]
    if wrong:
        parser.error(f"there is no recording {wrong[0]!r}: choose from {', '.join(known)}")
    return wanted


if __name__ == "__main__":
    main()
