"""Work that takes turns with its watcher: it can be looked at, timed out and stopped, however deep it is."""

import random
import threading
import time
from dataclasses import replace

import pytest
import torch

from demo.runs.engine import Experiment, run
from demo.screen.messages import messages
from demo.turns import LOOK, Over, Pause, at_most, in_turns, tick
from demo.victim.models import MODELS
from tests.experiments import drawn, watched

SMALL = ("transformer", "tinybert4", "minilm")


def deep(seconds: float, doing: str = "digging") -> float:
    """Computes for so long without yielding."""
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        tick(doing)
        time.sleep(0.001)
    return seconds


def test_what_the_work_yields_comes_through_in_order():
    assert list(in_turns(lambda: iter(range(5)))) == [0, 1, 2, 3, 4]


def test_deep_work_pauses_and_says_what_it_is_doing():
    told = list(in_turns(lambda: map(deep, [5 * LOOK])))
    assert told[-1] == 5 * LOOK
    assert Pause("digging") in told[:-1]


def test_what_was_said_before_an_item_is_not_said_after_it():
    def work():
        tick("first")
        yield 1
        deep(2 * LOOK, "")
        yield 2

    assert list(in_turns(work))[1] == Pause("")


def test_work_ends_at_the_first_tick_after_its_time():
    ticks = []

    def work():
        yield "begun"
        while True:
            ticks.append(len(ticks))
            tick()

    assert list(in_turns(work, over=lambda: len(ticks) >= 3)) == ["begun"]
    assert ticks == [0, 1, 2]


def test_closing_ends_the_work_and_its_thread():
    ended, threads = [], threading.active_count()

    def work():
        try:
            yield "begun"
            deep(3600)
        finally:
            tick()  # even what cleans up may tick
            ended.append(True)

    turns = in_turns(work)
    assert next(turns) == "begun"
    assert isinstance(next(turns), Pause)
    assert threading.active_count() == threads + 1
    turns.close()
    assert threading.active_count() == threads


def test_only_one_of_the_two_is_ever_at_work():
    at_work = 0

    def work():
        nonlocal at_work
        for n in range(50):
            at_work += 1
            time.sleep(0.001)
            assert at_work == 1
            at_work -= 1
            yield n

    for _ in in_turns(work):
        assert at_work == 0


def test_errors_come_through_with_their_place():
    def work():
        yield 1
        raise ValueError("wrong")

    turns = in_turns(work)
    next(turns)
    with pytest.raises(ValueError, match="wrong") as problem:
        next(turns)
    assert problem.traceback[-1].name == "work"


def test_modes_of_torch_stay_with_the_work():
    def work():
        with torch.no_grad():
            yield torch.is_grad_enabled()

    turns = in_turns(work)
    assert next(turns) is False
    assert torch.is_grad_enabled()
    turns.close()
    assert torch.is_grad_enabled()


def test_a_question_is_worth_only_a_moment():
    with pytest.raises(Over), at_most(0.01):
        deep(3600)
    deep(0.01)  # outside, nothing ticks


def test_a_moment_within_a_run_does_not_hide_its_clock():
    def work():
        with at_most(3600):
            deep(3600)
        yield "never"

    assert list(in_turns(work, over=lambda: True)) == []


def test_the_way_back_through_a_network_ticks_too(tiny):
    """A large model's backward pass takes seconds: it can be stopped in every layer."""
    seen = []
    words = tiny.words[tiny.encode("one two")][None].clone().requires_grad_(True)

    def work():
        loss = tiny.net(words).sum()
        before = len(seen)
        torch.autograd.grad(loss, words)
        yield len(seen) - before

    (ticks,) = in_turns(work, over=lambda: seen.append(1))
    assert ticks >= tiny.layers


class Fast:
    """A clock by which everything takes ten times as long."""

    def __call__(self) -> float:
        return 10 * time.perf_counter()


@pytest.mark.parametrize("clock", [time.perf_counter, Fast()])
def test_a_run_ends_with_a_frame_by_its_own_clock(minilm, clock):
    experiment = Experiment("the cat sat on the mat", slice="all", attack="dlg", seconds=1, device="cpu")
    frames = list(run(experiment, clock=clock))
    assert frames[-1].snapshot.seconds >= 1
    assert all(frame.snapshot.seconds < 1 for frame in frames[:-1])


def test_a_run_without_time_for_a_guess_shows_none(minilm):
    experiment = Experiment("the cat sat on the mat", slice="all", attack="grab", seconds=1e-9, device="cpu")
    (frame,) = run(experiment)
    assert frame.scores.recover_rate == 0
    assert set(frame.snapshot.ids[1:-1].tolist()) == {minilm.tokenizer.mask_token_id}


@pytest.mark.parametrize("seed", range(24))
def test_random_experiments_keep_their_budget(seed):
    """As a ratio to the budget, so that a busy machine cannot fail it; `python -m tests.experiments` is strict."""
    outcome = watched(drawn(random.Random(seed), SMALL, seconds=(0.5, 1.0)))
    assert set(outcome.faults) <= {"over budget", "silent"}, outcome
    assert outcome.seconds < 4 * outcome.experiment.seconds
    assert outcome.silence < 3 * outcome.experiment.seconds


@pytest.mark.parametrize("seed", range(100, 112))
def test_random_experiments_stop_at_any_moment(seed):
    """A closed tab closes the stream; as a ratio to a budget that nobody would wait for."""
    chance = random.Random(seed)
    experiment = replace(drawn(chance, SMALL), seconds=600, settings=())
    stream, until = messages(experiment, gap=0.0), time.perf_counter() + chance.random()
    try:
        while time.perf_counter() < until and next(stream, None):
            pass
    except ValueError:
        return  # refused
    closing = time.perf_counter()
    stream.close()
    assert time.perf_counter() - closing < 0.02 * experiment.seconds


def test_experiments_are_drawn_from_all_that_there_is():
    chance = random.Random(0)
    many = [drawn(chance, list(MODELS)) for _ in range(400)]
    assert {one.model for one in many} == set(MODELS)
    assert len({one.slice for one in many}) == 13
    assert len({one.attack for one in many}) == 10
    assert max(len(one.defenses) for one in many) >= 4
