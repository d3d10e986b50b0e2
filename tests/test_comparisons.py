import json
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from demo.client.client import Client
from demo.client.defenses import Noise
from demo.runs.engine import Experiment, run
from demo.screen.comparisons import READY, Change, Watch, changed, comparison, who_was_first
from demo.screen.recordings import COMPARISONS, FOLDER
from demo.ui.compare_tab import AS_IT_IS, change_of, planned, shown
from demo.victim.models import outline

BASE = Experiment(
    "two dogs bark", slice="query", layers=(0,), attack="search", seconds=60, seed=7, settings=(("patience", 9),)
)


def test_nothing_changes_but_what_was_asked_for():
    assert changed(BASE, Change()) == BASE
    assert changed(BASE, Change(attack="search")) == BASE
    assert changed(BASE, Change(attack="dlg")) == replace(BASE, attack="dlg", settings=())
    assert changed(BASE, Change(slice="all")) == replace(BASE, slice="all", layers=())
    assert changed(BASE, Change(slice="key", layer=4)) == replace(BASE, slice="key", layers=(4,))
    assert changed(BASE, Change(client=(("dropout", 0.1),))) == replace(BASE, client=Client(dropout=0.1))
    noisy = replace(BASE, defenses=(Noise(1e-3),))
    assert changed(BASE, Change(defense="noise=1e-3")) == noisy
    assert changed(noisy, Change()) == noisy
    assert changed(noisy, Change(defense="none")) == BASE


def test_a_slice_of_a_layer_gets_one_where_the_base_has_none():
    whole = replace(BASE, slice="all", layers=())
    assert changed(whole, Change(slice="query")).layers == (3,)


@pytest.mark.parametrize("name", READY)
def test_ready_comparisons_differ_and_pass_through_the_menus(name):
    sides = READY[name]
    a, b = planned(BASE, [value for change in sides for value in shown(change)])
    assert (a, b) == tuple(changed(BASE, change) for change in sides)
    assert a != b
    assert a.seed == b.seed == BASE.seed


def test_menus_are_checked():
    assert (
        change_of(AS_IT_IS, AS_IT_IS, AS_IT_IS, AS_IT_IS, AS_IT_IS) == change_of(None, None, None, "", None) == Change()
    )
    assert change_of(AS_IT_IS, 0, AS_IT_IS, " none ", 0) == Change(layer=0, defense="none", client=(("dropout", 0.0),))
    assert change_of(AS_IT_IS, AS_IT_IS, AS_IT_IS, AS_IT_IS, 9).client == (("dropout", 0.4),)
    for values, message in (
        (("nowhere", None, None, None, None), "unknown slice 'nowhere'"),
        ((None, "x", None, None, None), "layer 'x' is not a number"),
        ((None, None, "guess", None, None), "unknown attack 'guess'"),
        ((None, None, None, "paint", None), "unknown defense 'paint'"),
        ((None, None, None, None, "much"), "'much' is not a number"),
    ):
        with pytest.raises(ValueError, match=message):
            changed(BASE, change_of(*values))


def test_a_watch_stands_still_while_others_work():
    watch = Watch()
    with watch:
        time.sleep(0.02)
    spent = watch()
    time.sleep(0.05)
    assert watch() == spent >= 0.02
    with watch:
        assert watch() >= spent


def test_waiting_is_no_part_of_a_run(minilm):
    """A run whose clock stands still does not spend its budget."""
    frames = run(BASE, clock=lambda: 3.0)
    assert {frame.snapshot.seconds for frame in frames} == {0.0}


def test_both_runs_come_in_the_order_of_their_seconds(minilm):
    a, b = changed(BASE, Change(attack="tag")), BASE
    *told, last = list(comparison(replace(a, seconds=3), b))
    json.dumps(told)
    pairs = [next(iter(message["frames"].items())) for message in told]
    assert all(one["seconds"] <= other["seconds"] for (_, one), (_, other) in pairwise(pairs))
    for side in "AB":
        numbers = [frame["n"] for name, frame in pairs if name == side]
        assert numbers == list(range(len(numbers)))
    assert last["starts"]["A"]["own"] == "tag"
    assert (last["starts"]["B"]["own"], last["common"]) == (
        "search",
        "MiniLM-L6, pretrained · attention query of layer 0",
    )
    assert last["frames"]["B"]["tokens"] == ["two", "dogs", "bark"]
    assert last["ends"]["B"]["certified"]
    assert set(last["ends"]) == {"A", "B"}
    assert "B (search)" in last["said"]


def test_whoever_is_behind_goes_on(minilm, monkeypatch):
    """Neither is computed further than one frame beyond what the other has reached."""
    script, computed = {"tag": (1, 4, 5), "search": (2, 3, 6)}, []

    def scripted(experiment, case, gap, clock):
        for n, seconds in enumerate(script[experiment.attack]):
            computed.append(seconds)
            start = {"truth": ["a"], "title": ""}
            yield {"frame": {"n": n, "seconds": seconds, "tokens": ["a"], "recover": 100}, "start": start, "end": {}}

    monkeypatch.setattr("demo.screen.comparisons.messages", scripted)
    *told, last = comparison(changed(BASE, Change(attack="tag")), BASE)
    shown = [(side, frame["seconds"]) for message in told for side, frame in message["frames"].items()]
    assert shown == [("A", 1), ("B", 2), ("B", 3), ("A", 4), ("A", 5), ("B", 6)]
    assert computed == [1, 2, 4, 3, 6, 5]
    assert last["said"].startswith("A (tag) was first")


def test_the_seed_decides_both_sides(minilm):
    """What the comparison shows of a side is what the side does alone."""
    a, b = BASE, changed(BASE, Change(attack="span"))
    *_, last = comparison(a, b)
    for side, experiment in (("A", a), ("B", b)):
        *_, alone = run(experiment)
        assert last["frames"][side]["step"] == alone.snapshot.step
        assert " ".join(last["frames"][side]["tokens"]) == alone.text


def test_what_cannot_be_compared_says_which_side(minilm):
    with pytest.raises(ValueError, match="B: span cannot attack this"):
        list(comparison(BASE, changed(BASE, Change(attack="span", layer=4))))
    with pytest.raises(ValueError, match="A and B are the same experiment"):
        list(comparison(BASE, BASE))


@pytest.mark.parametrize(
    ("whole", "said"),
    [
        ({"A": 4.0, "B": 1.5}, "B (x) was first: every word in place after 1.5 s. A needed 4.0 s, 2.5 s more."),
        ({"A": 1.51, "B": 1.49}, "A draw: A and B (x) both had every word in place after 1.5 s."),
        (
            {"A": 2.0, "B": None},
            "Only A had every word in place, after 2.0 s. B (x) ended with 40 % of the words after 9.0 s.",
        ),
        (
            {"A": None, "B": None},
            "Neither put every word in place: A ended with 60 % of the words and B (x) with 40 %.",
        ),
    ],
)
def test_who_was_first(whole, said):
    frames = {"A": {"recover": 60, "seconds": 8.0}, "B": {"recover": 40, "seconds": 9.0}}
    assert who_was_first({"A": "", "B": "x"}, frames, whole) == said


@pytest.mark.parametrize("name", COMPARISONS)
def test_recorded_comparisons_are_of_their_experiments(name):
    told, pair = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["messages"], COMPARISONS[name]
    last, model = told[-1], outline(pair[0].model)
    truth = model.tokens(model.inner(model.encode(pair[0].sentence)))
    for side, experiment in zip("AB", pair, strict=True):
        start = last["starts"][side]
        assert (start["truth"], start["own"], start["budget"]) == (truth, experiment.attack, experiment.seconds)
        assert len([message for message in told if side in message["frames"]]) > 5
    assert last["said"]
