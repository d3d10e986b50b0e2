"""Two experiments on one clock: what each does differently, and who was first.

    a, b = (changed(base, change) for change in READY["TAG against DLG"])
    for message in comparison(a, b): ...

One device runs one attack at a time, so they take turns: whichever is behind by its own clock goes on, and that clock
stands still while the other computes. The screen sees both at the same second, as if each had the device to itself.
"""

import heapq
import itertools
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from demo.runs.engine import Case, Experiment, set_up
from demo.runs.surveys import under
from demo.screen.messages import GAP, SEPARATOR, STARTS, Message, messages, title
from demo.settings import with_settings
from demo.turns import Pause, in_turns
from demo.victim.models import outline
from demo.victim.slices import SLICES

NO_DEFENSE = "none"
UNSEEN = (  # the map of words, the tree and the curve of each attack's score, which a comparison does not show
    "growth",
    "points",
    "truth_points",
    "background",
    "variance",
    "objectives",
)


@dataclass(frozen=True)
class Change:
    """What one side of a comparison does differently; None leaves it as it is."""

    slice: str | None = None
    layer: int | None = None
    attack: str | None = None
    defense: str | None = None  # noise=1e-3, or none at all
    client: tuple[tuple[str, Any], ...] = ()  # changes to how it trains


READY = {  # the first is what the tab shows when it opens
    "TAG against search": (Change(attack="tag"), Change(attack="search")),
    "TAG against DLG": (Change(slice="layer", attack="tag"), Change(slice="layer", attack="dlg")),
    "one matrix against everything": (Change(slice="query"), Change(slice="all")),
    "without and with noise": (Change(defense=NO_DEFENSE), Change(defense="noise=0.001")),
    "without and with dropout": (Change(client=(("dropout", 0.0),)), Change(client=(("dropout", 0.1),))),
}


class Watch:
    """A clock that runs only `with` it."""

    def __init__(self) -> None:
        self.spent = 0.0
        self.since: float | None = None

    def __call__(self) -> float:
        return self.spent + (0.0 if self.since is None else time.perf_counter() - self.since)

    def __enter__(self) -> None:
        self.since = time.perf_counter()

    def __exit__(self, *problem: object) -> None:
        self.spent, self.since = self(), None


def changed(base: Experiment, change: Change) -> Experiment:
    """The base experiment with the change made; everything else, the seed too, stays."""
    slice, attack = change.slice or base.slice, change.attack or base.attack
    if slice not in SLICES:
        raise ValueError(f"unknown slice {slice!r}: choose one of {', '.join(SLICES)}")
    middle = outline(base.model, base.weights).layers // 2
    layers = base.layers or (middle,) if change.layer is None else (change.layer,)
    if change.defense == NO_DEFENSE:
        base = replace(base, defenses=())
    elif change.defense is not None:
        base = under(base, change.defense)
    return replace(
        base,
        slice=slice,
        layers=layers if SLICES[slice].of_layer else (),
        attack=attack,
        settings=base.settings if attack == base.attack else (),  # settings are of one attack
        client=with_settings(base.client, "the client", change.client),
    )


def comparison(a: Experiment, b: Experiment, gap: float = GAP) -> Iterator[Message]:
    """Both runs as the screen sees them, in the order of their seconds; closing the generator stops them.

    While both are set up, messages hold `progress` alone. Then each holds `frames` (what is new, by side) and `ends`
    (every verdict so far); the first ones and the last also hold `starts`, and the last one `frames` of both sides and
    what `said` who was first. None depends on another.
    """
    if a == b:
        raise ValueError("A and B are the same experiment: change something in one of them")
    sides, run_id = {"A": a, "B": b}, secrets.token_hex(4)
    cases: dict[str, Case] = {}
    for ready in in_turns(lambda: itertools.starmap(set_up_side, sides.items())):
        if isinstance(ready, Pause):
            yield {"run": run_id, "progress": ready.doing}
        else:
            cases["B" if cases else "A"] = ready
    titles = [title(experiment, cases[side].model).split(SEPARATOR) for side, experiment in sides.items()]
    about = {"run": run_id, "common": SEPARATOR.join(part for part in titles[0] if part in titles[1])}
    own = {
        side: SEPARATOR.join(part for part in these if part not in others)
        for side, these, others in zip(sides, titles, reversed(titles), strict=True)
    }
    starts: Message = {}
    frames: Message = {}
    ends: Message = {}
    whole: dict[str, float | None] = {}  # since when each has had every token in place
    streams = [side_of(side, experiment, cases[side], gap) for side, experiment in sides.items()]
    for n, (side, message) in enumerate(heapq.merge(*streams, key=lambda told: told[1]["frame"]["seconds"])):
        frame = frames[side] = without(message["frame"])
        if side not in starts:
            starts[side] = without(message["start"]) | {"own": own[side]}
        if "end" in message:
            ends[side] = message["end"]
        found = frame["tokens"] == starts[side]["truth"]
        whole[side] = (whole.get(side) or frame["seconds"]) if found else None
        yield about | {"frames": {side: frame}, "ends": {**ends}} | ({"starts": {**starts}} if n < 2 * STARTS else {})
    yield about | {"frames": frames, "ends": ends, "starts": starts, "said": who_was_first(own, frames, whole)}


def set_up_side(side: str, experiment: Experiment) -> Case:
    with named(side):
        return set_up(experiment)


def side_of(side: str, experiment: Experiment, case: Case, gap: float) -> Iterator[tuple[str, Message]]:
    """One run's messages; its clock runs only while they are made."""
    watch = Watch()
    stream = messages(experiment, case, gap, watch)
    while True:
        with watch, named(side):
            message = next(stream, None)
        if message is None:
            return
        yield side, message


@contextmanager
def named(side: str) -> Iterator[None]:
    """Whatever is wrong with a side says which one it is."""
    try:
        yield
    except ValueError as problem:
        raise ValueError(f"{side}: {problem}") from None


def without(told: Message) -> Message:
    return {name: value for name, value in told.items() if name not in UNSEEN}


def who_was_first(own: Mapping[str, str], frames: Mapping[str, Any], whole: Mapping[str, float | None]) -> str:
    """The comparison's end in a sentence or two."""
    called = {side: f"{side} ({what})" if what else side for side, what in own.items()}
    a, b = sorted(called, key=lambda side: (whole[side] is None, whole[side], -frames[side]["recover"], side))
    first, second = whole[a], whole[b]
    if first is not None and second is not None:
        if f"{first:.1f}" == f"{second:.1f}":
            return f"A draw: {called['A']} and {called['B']} both had every word in place after {first:.1f} s."
        later = f"{called[b]} needed {second:.1f} s, {second - first:.1f} s more."
        return f"{called[a]} was first: every word in place after {first:.1f} s. {later}"
    if first is not None:
        rest = f"{called[b]} ended with {frames[b]['recover']} % of the words after {frames[b]['seconds']:.1f} s."
        return f"Only {called[a]} had every word in place, after {first:.1f} s. {rest}"
    shares = (
        f"{called[a]} ended with {frames[a]['recover']} % of the words and {called[b]} with {frames[b]['recover']} %"
    )
    return f"Neither put every word in place: {shares}."
