"""What the C libraries below torch are told arrives there."""

import os
import sys
import threading
from pathlib import Path

import pytest
import torch

from demo.machine import rest, settle
from demo.turns import in_turns

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="glibc and GNU's OpenMP are Linux's")


def helpers() -> int:
    """Threads of this process that Python has not made."""
    return len(list(Path("/proc/self/task").iterdir())) - threading.active_count()


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def compute() -> None:
    torch.randn(512, 512).exp()


def test_a_thread_that_rests_has_no_helpers(two_threads):
    rest()
    resting = helpers()
    compute()
    assert helpers() > resting
    rest()
    assert helpers() == resting
    compute()  # and they come back


def test_whoever_watches_a_run_rests_while_it_computes(two_threads):
    seen = []

    def work():
        for _ in range(2):
            seen.append(helpers())
            yield

    rest()
    resting = helpers()
    for _ in in_turns(work):
        compute()
    assert seen == [resting, resting]


def test_few_compiled_shapes_are_kept(monkeypatch):
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    settle()
    assert int(os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"]) < 100
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "7")
    settle()
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "7"  # whoever starts the server decides
