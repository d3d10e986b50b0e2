"""What devices forbid, and what no run may leave behind in the thread it ran in."""

import ast
import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import demo
import demo.screen.messages
from demo.attacker.attacks import ATTACKS
from demo.client.client import Client
from demo.client.defenses import DEFENSES, parse, strength_of
from demo.runs import engine
from demo.runs.engine import Experiment
from demo.screen.comparisons import Change, changed, comparison
from demo.screen.messages import messages
from demo.victim.anatomy import Anatomy
from tests.apple import NO_DOUBLES, apple, placed
from tests.conftest import small

SENTENCE = "The cat sat on the mat."
STEPS = 12  # of each attack: enough for its first turns of every kind
PLACES = [
    ("all", ()), ("embeddings", ()), ("head", ()), ("layer", (1,)), ("query", (1,)), ("key", (0,)), ("value", (0,)),
    ("attention-output", (1,)), ("ffn-out", (0,)), ("ffn-in", (2,)), ("ffn-out", (2,)),
]  # fmt: skip
BASE = Experiment(SENTENCE, slice="query", layers=(1,), steps=STEPS, seconds=600)
MODES = {"no_grad", "enable_grad", "inference_mode", "set_grad_enabled"}


def defended(name):
    """The defense as it stands in the menu."""
    default = strength_of(DEFENSES[name]())
    return parse(name if default is None else f"{name}={default}")


def cases():
    """Every attack on every place; and two of these with each defense, dropout, a batch, and nothing told."""
    for (slice, layers), attack in itertools.product(PLACES, ATTACKS):
        yield replace(BASE, slice=slice, layers=layers, attack=attack)
    for slice, layers in (("value", (0,)), ("all", ())):
        base = replace(BASE, slice=slice, layers=layers)
        for name, attack in itertools.product(DEFENSES, ("best", "likelihood", "rows")):
            yield replace(base, defenses=(defended(name),), attack=attack)
        yield replace(base, defenses=(parse("noise=0"), parse("mask=0.5"), parse("round=int8")))
        for attack in ("best", "grab"):
            yield replace(base, client=Client(dropout=0.1), attack=attack)
        for attack in ("best", "likelihood", "rows"):
            yield replace(base, client=Client(companions=3), attack=attack)
        yield replace(base, knows_length=False, knows_label=False)
        yield replace(base, sentence=f"{SENTENCE}\nTwo dogs bark.", labels=(1, 0), knows_label=False)


@pytest.fixture
def in_one_thread(monkeypatch):
    """A pretended device is the thread's own: the work is done in the watcher's."""
    for module in (engine, demo.screen.messages):
        monkeypatch.setattr(module, "in_turns", lambda work, over=None: work())


def attacked(experiment):
    """The run's messages; nothing where the attack says that it cannot work there."""
    try:
        yield from messages(experiment, gap=0)
    except ValueError as problem:
        if "cannot attack this" not in str(problem):
            raise


@pytest.fixture(autouse=True)
def _nothing_left_behind():
    """What one test may find must not fail the next."""
    yield
    torch.set_grad_enabled(True)


@pytest.fixture
def tiny_loaded(monkeypatch, tiny):
    monkeypatch.setattr(engine, "load", lambda *_: tiny)


# -- Apple's GPU has no 64-bit numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda there: there.double(),
        lambda there: there.to(torch.float64),
        lambda there: (2 * there).type(torch.float64),
        lambda there: torch.zeros(2, dtype=torch.float64, device=there.device),
        lambda there: torch.zeros(2, dtype=torch.float64).to(there.device),
        lambda there: there.cpu().to(there.device).double().cpu(),
        lambda there: torch.tensor([1.0], device=there.device).double(),
        lambda there: torch.autograd.grad(there.requires_grad_(True).square().sum(), there)[0].double(),
    ],
)
def test_the_pretended_device_refuses_doubles(ask):
    with apple() as device, pytest.raises(TypeError, match=NO_DOUBLES):
        ask(torch.ones(2, device=device))


def test_the_pretended_device_computes():
    with apple() as device:
        there = torch.ones(2, device=device)
        assert (3 * there).device == device
        assert (3 * there).cpu().double().numpy().tolist() == [3, 3]
        with pytest.raises(TypeError, match="to numpy"):
            there.numpy()
        assert torch.zeros(2).double().device.type == "cpu"


# -- no run leaves a mode behind ---------------------------------------------------------------------------------------


def opens_mode(node):
    return isinstance(node, ast.With) and any(
        isinstance(part, ast.Attribute) and part.attr in MODES
        for item in node.items
        for part in ast.walk(item.context_expr)
    )


def test_no_generator_yields_inside_a_mode():
    """A mode is the thread's, and while a generator rests, its thread does other things. (A decorator is left at each
    yield: torch sees to it.)"""
    wrong = [
        f"{file.name}:{inner.lineno}"
        for file in Path(demo.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if opens_mode(node)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Yield | ast.YieldFrom)
    ]
    assert not wrong


@pytest.mark.filterwarnings("ignore:at..frobenius_norm is deprecated")  # torch's own way to norms on this device
def test_no_attack_asks_for_doubles_or_leaves_a_mode_behind(monkeypatch, in_one_thread):
    done = 0
    with apple() as device:
        model = placed(small(), device)
        monkeypatch.setattr(engine, "load", lambda *_: model)
        for experiment in cases():
            for message in attacked(experiment):
                assert torch.is_grad_enabled(), f"{experiment.attack} on {experiment.slice} {experiment.layers}"
                done += "end" in message
    assert done > len(PLACES) * 5  # most attacks can work on most places


@pytest.mark.parametrize("other", ["tag", "dlg", "cosine", "grab"])
def test_a_search_of_the_last_layer_can_be_compared_with_a_descent(tiny_loaded, other):
    base = replace(BASE, slice="ffn-in", layers=(2,), steps=80)
    *_, last = comparison(changed(base, Change(attack="search")), changed(base, Change(attack=other)), gap=0)
    assert last["ends"].keys() == {"A", "B"}


def test_a_run_that_is_stopped_leaves_no_mode_behind(tiny_loaded):
    """Gradio takes a run's steps in one thread, and ends it in another."""
    stream = messages(replace(BASE, slice="ffn-in", layers=(2,), attack="search", steps=1000), gap=0)

    def stepped():
        return next(message for message in stream if message["frame"]["step"] == STEPS)  # it asks which words would fit

    with ThreadPoolExecutor(1) as thread:
        thread.submit(stepped).result()
        stream.close()
        assert thread.submit(torch.is_grad_enabled).result()


def test_weights_are_frozen_before_they_are_moved(monkeypatch):
    """Where GPUs are lent, what is moved is another tensor, and the worker's is as it was at that moment."""
    moved = []
    monkeypatch.setattr(
        Anatomy, "to", lambda net, *_: moved.append(any(p.requires_grad for p in net.parameters())) or net
    )
    from demo.victim import models

    models.load("transformer", models.Weights("normal", 0.0123), "cpu")
    assert moved == [False]
