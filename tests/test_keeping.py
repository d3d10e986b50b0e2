"""What is kept between runs, and that memory comes back."""

import gc
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from demo.attacker.attacks import Budget
from demo.attacker.attacks.search import Search
from demo.attacker.lens import frequent_ids, lens_at
from demo.bench.server import APP
from demo.client.secret import Secret
from demo.client.share import share
from demo.victim import models
from demo.victim.keeping import Kept, kept_with_first
from demo.victim.models import Weights, load, moved, prepare
from demo.victim.rough import BFLOAT16, rough
from demo.victim.slices import select
from tests.conftest import SENTENCE, small


@pytest.fixture
def kept(monkeypatch):
    """The models that are kept: none yet."""
    fresh = Kept(models.KEPT.room, models.KEPT.size)
    monkeypatch.setattr(models, "KEPT", fresh)
    return fresh


def test_small_things_stay_and_large_ones_make_room():
    kept = Kept(room=10, size=len)
    kept.get("small", lambda: "12345")
    kept.get("large", lambda: "1" * 100)
    assert list(kept.things) == ["small", "large"]  # the one in use, however large
    kept.get("larger", lambda: "1" * 200)
    assert list(kept.things) == ["small", "larger"]
    assert kept.get("small", lambda: pytest.fail("it was there")) == "12345"
    assert list(kept.things) == ["small"]


def test_of_small_things_those_used_last_stay():
    kept = Kept(room=10, size=len)
    for name in "abc":
        kept.get(name, lambda: "1234")
    kept.get("a", lambda: pytest.fail("it was there"))
    kept.get("d", lambda: "1234")
    assert list(kept.things) == ["c", "a", "d"]


def test_a_large_thing_is_gone_before_the_next_is_made():
    class Large:
        def __init__(self):
            self.itself = self  # as anything that is kept may come to refer to itself

    kept = Kept(room=0, size=lambda thing: 1)
    gone = weakref.ref(kept.get("a", Large))
    kept.get("b", lambda: Large() if gone() is None else pytest.fail("both are there"))


def test_a_thing_is_made_once_for_all_who_ask_for_it():
    kept, made, ready = Kept(room=10, size=len), [], threading.Barrier(4)

    def asked(_):
        ready.wait()
        return kept.get("a", lambda: made.append(1) or "thing")

    with ThreadPoolExecutor(4) as visitors:
        assert set(visitors.map(asked, range(4))) == {"thing"}
    assert len(made) == 1


def test_results_go_with_what_they_are_of():
    class Thing:
        pass

    made = []

    @kept_with_first(2)
    def of(thing, number):
        made.append(number)
        return [number]

    thing = Thing()
    for number in (1, 1, 2, 1, 3, 2):  # of the three, two are kept
        assert of(thing, number) == [number]
    assert made == [1, 2, 3, 2]
    one, gone = weakref.ref(thing), weakref.ref(of)
    del thing
    assert one() is None
    assert gone() is of


def test_a_model_that_is_let_go_takes_all_that_was_learned_of_it_along(monkeypatch):
    """Without waiting for Python to look for what refers to itself."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {BFLOAT16[0]: True})
    model = small()
    for name, layer in (("query", 1), ("ffn-in", 2), ("ffn-out", 1)):
        leak = share(model, Secret.of(model, [model.encode(SENTENCE)], [1]), select(model, name, (layer,)))
        list(Search().run(leak, Budget(600, 12), 0))
    assert rough(model.net) is not model.net
    assert lens_at(model, 1, False, 9, 0) is lens_at(model, 1, False, 9, 0)
    assert frequent_ids(model) is frequent_ids(model)
    gc.disable()
    try:
        gone = weakref.ref(model.net)
        del model, leak
        assert gone() is None
    finally:
        gc.enable()


def test_the_default_stays_beside_a_large_model_which_makes_room_for_it(kept):
    default, large = load("minilm", device="cpu"), load("tinybert6", device="cpu")
    assert load("tinybert6", device="cpu") is large
    assert load("minilm", device="cpu") is default
    assert list(kept.things.values()) == [default]
    del large
    assert load("tinybert4", device="cpu").id == "tinybert4"  # a small one may stay
    assert load("minilm", device="cpu") is default
    assert len(kept.things) == 2


def test_what_is_prepared_is_moved_and_not_made_again(kept, monkeypatch):
    weights = Weights("normal", 0.03)
    prepare("transformer", weights)
    monkeypatch.setattr(models, "_loaded", lambda *_: pytest.fail("it was made again"))
    assert load("transformer", weights, "cpu") is load("transformer", weights, "cpu")
    prepare("transformer", weights)


def test_a_moved_model_has_the_same_numbers_and_is_frozen(tiny_decoder):
    there = moved(tiny_decoder, torch.device("cpu"))
    words = tiny_decoder.words[tiny_decoder.encode(SENTENCE)][None]
    assert torch.equal(there.net(words), tiny_decoder.net(words))
    assert not any(parameter.requires_grad for parameter in there.net.parameters())
    assert there.net is not tiny_decoder.net


WALK = """
import sys
from demo.runs.engine import Experiment
from demo.screen.messages import messages
from demo.victim.models import MODELS, Weights, unavailable
from demo.machine import give_back

AT_HAND = [name for name, shape in MODELS.items() if not unavailable(name, shape.default)]

def used(model, weights=None):
    experiment = Experiment("The cat sat on the mat.", model=model, weights=weights, layers=(1,), steps=4, seconds=600)
    for message in messages(experiment):
        pass
    give_back()
    with open("/proc/self/status") as status:
        told = next(line for line in status if line.startswith("VmRSS"))
    print(int(told.split()[1]) // 1024, flush=True)

used("minilm")
used("minilm")
print(len(AT_HAND), flush=True)
for name in AT_HAND:
    used(name)
used("minilm")
for scale in (0.02, 0.021, 0.022):
    used("tinybert6", Weights("normal", scale))
used("minilm")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it reads what Linux tells of a process")
def test_back_on_the_default_model_the_memory_is_back():
    """In megabytes; the largest model has 1340 of weights."""
    done = subprocess.run([sys.executable, "-c", WALK], cwd=APP.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    _, before, many, *walk = map(int, done.stdout.split())
    assert many >= 9  # the chat model is one
    back, *scales, end = walk[many:]
    assert back < before + 300
    assert end < before + 300
    assert max(scales) < min(scales) + 150  # 270 of weights each, where they stay
