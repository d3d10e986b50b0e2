"""Runs to play without computing: `python -m demo.recordings` makes those in assets/recordings, from real runs."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from tqdm import tqdm

from demo.engine import Experiment
from demo.messages import Message, messages

FOLDER = Path(__file__).parent.parent / "assets" / "recordings"
SENTENCE = "The patient was diagnosed with diabetes last week."

RECORDINGS = {
    "default": Experiment(SENTENCE, slice="query", layers=(3,)),  # what plays when the page opens
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


if __name__ == "__main__":
    main()
