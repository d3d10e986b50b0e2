"""What streaming costs: the engine alone against the same attack watched through the server, alternated in one run."""

import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gradio_client import Client

from demo.bench.server import serve
from demo.runs.engine import Experiment, run, set_up
from demo.screen.messages import STARTS, Message

# Descent, as its steps are all alike; and the default search, for how soon it moves and how it ends.
STEADY = Experiment("The patient was diagnosed with diabetes last week.", slice="layer", layers=(3,), attack="tag")
DEFAULT = replace(STEADY, slice="query", attack="best")


def measure(seconds: float, rounds: int, device: str | None = None) -> dict[str, Any]:
    """Steps per second alone and watched, frames per second, bytes per frame, and the seconds to the first frames."""
    steady = replace(STEADY, seconds=seconds, device=device)
    alone, watched, frames, sizes = [], [], [], []
    with serve(*(["--device", device] if device else [])) as address:
        client = Client(address, verbose=False)
        list(_stream(client, DEFAULT))  # warms the server up
        list(run(replace(steady, seconds=1)))  # and this process
        for _ in range(rounds):
            *_, last = run(steady, set_up(steady))
            alone.append(last.snapshot.step / last.snapshot.seconds)
            arrived = list(_stream(client, steady))
            told = [message["frame"] for _, message in arrived]
            watched.append(told[-1]["step"] / told[-1]["seconds"])
            frames.append((len(arrived) - 1) / (arrived[-1][0] - arrived[0][0]))
            sizes += [len(json.dumps(message, separators=(",", ":"))) for _, message in arrived[STARTS:-1]]
        default = list(_stream(client, replace(DEFAULT, sentence="My sister keeps bees behind the old church.")))
        moved = next(when for when, message in default if message["frame"]["marks"].strip("x"))
        waited, freed = _stopped(client, steady)
    ratio = statistics.median(w / a for w, a in zip(watched, alone, strict=True))
    return {
        "steps_per_second_alone": round(statistics.median(alone), 2),
        "steps_per_second_watched": round(statistics.median(watched), 2),
        "cost_of_watching": round(1 - ratio, 3),
        "frames_per_second": round(statistics.median(frames), 1),
        "default_frames": len(default),
        "default_frames_per_second": round((len(default) - 1) / (default[-1][0] - default[0][0]), 1),
        "bytes_per_frame": round(statistics.mean(sizes)),
        "largest_frame": max(sizes),
        "seconds_to_first_frame": round(default[0][0], 2),
        "seconds_to_first_right_tile": round(moved, 2),
        "seconds_to_verdict": round(default[-1][0], 2),
        "seconds_to_first_frame_of_descent": round(waited, 2),
        "seconds_from_cancel_to_free": round(max(0.0, freed), 2),
    }


def _stopped(client: Client, experiment: Experiment) -> tuple[float, float]:
    """Seconds to a run's first frame; and, once it is cancelled there, until another one can start."""
    started = time.perf_counter()
    job = client.submit(**_arguments(experiment), api_name="/attack")
    next(iter(job))
    stopped = time.perf_counter()
    job.cancel()
    first, _ = next(_stream(client, replace(DEFAULT, slice="all")))
    return stopped - started, time.perf_counter() - stopped - first


def _stream(client: Client, experiment: Experiment) -> Iterator[tuple[float, Message]]:
    """Each message with the seconds since it was asked for."""
    started = time.perf_counter()
    for message in client.submit(**_arguments(experiment), api_name="/attack"):
        yield time.perf_counter() - started, message


def _arguments(experiment: Experiment) -> dict[str, Any]:
    return {
        "sentence": experiment.sentence,
        "slice": experiment.slice,
        "layers": list(experiment.layers),
        "attack": experiment.attack,
        "seconds": experiment.seconds,
    }
