"""Small random networks with the real vocabulary, and the embedded model where the claim is about it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from demo.attacker.attacks import ATTACKS
from demo.attacker.leak import Leak
from demo.bench.server import Server, served
from demo.client.secret import Secret
from demo.client.share import share
from demo.runs.engine import Experiment, secret_of
from demo.victim.model import Model
from demo.victim.models import FAMILIES, KEPT, MODELS, Shape, Weights, draw, load, ordinary_ids, pretrained_folder
from demo.victim.slices import SLICES, select
from tests.growing import PlayedSearch
from tests.toy import DRAWN, Toy

LONG = 1200.0  # seconds: a budget that no machine is too slow for, where an attack ends by itself
UNGATED = tuple(name for name in SLICES if name != "ffn-gate")  # the slices of networks that have no gates
SENTENCE = "the cat sat on the mat near the red door"


def small(family: str = "bert", scale: float = 0.1, width: int = 48, heads: int = 4, **own: Any) -> Model:
    """Three layers: fast enough for every slice, distance and attack."""
    tokenizer = AutoTokenizer.from_pretrained(pretrained_folder("minilm"))
    net = FAMILIES[family].shaped(3, width, heads, 2 * width, len(tokenizer), **own)
    draw(net, Weights("normal", scale, seed=1))
    net.eval().requires_grad_(False)
    return Model("small", "small", net, tokenizer, torch.device("cpu"), ordinary_ids(tokenizer), net.ends(tokenizer))


@pytest.fixture(scope="session")
def tiny() -> Model:
    return small()


@pytest.fixture(scope="session")
def tiny_decoder() -> Model:
    return small("encoder-decoder")


@pytest.fixture(scope="session")
def minilm() -> Model:
    return load("minilm", device="cpu")


@pytest.fixture(scope="session")
def running() -> Iterator[Server]:
    """The running app; all tests are one visitor, who may start as many runs as there are tests."""
    with served(environment={"LEAKSCOPE_PER_VISITOR": "0", "LEAKSCOPE_PER_ADDRESS": "0"}) as app:
        yield app


@pytest.fixture(scope="session")
def server(running: Server) -> str:
    """Its address."""
    return running.address


@pytest.fixture(scope="session")
def leak_of() -> Callable[..., Leak]:
    """leak_of(model, "query", (1,), sentence) -> the leak of that sentence's gradient."""

    def make(
        model: Model,
        name: str,
        layers: tuple[int, ...] = (),
        sentence: str = SENTENCE,
        dropout: float = 0.0,
        frozen: bool = False,
        seed: int = 0,
        **told: bool,
    ) -> Leak:
        """A batch has one sentence a line; label 1 for all."""
        ids = [model.encode(line) for line in sentence.splitlines()]
        secret = Secret.of(model, ids, [1] * len(ids), dropout, seed)
        return share(model, secret, select(model, name, layers, frozen), **told)

    return make


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    """A family that the house has never heard of."""
    monkeypatch.setitem(FAMILIES, "toy", Toy)
    monkeypatch.setitem(MODELS, "toy", Shape("Toy", 2, 32, 2, 64, family="toy"))
    yield load("toy", DRAWN, "cpu")
    KEPT.things.clear()


@pytest.fixture
def played(toy: Model, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Experiment]:
    """played(sentences) -> the experiment of a search that walks as it is told, on a model without marks."""

    def make(sentence: str, **more: int) -> Experiment:
        experiment = Experiment(sentence, model="toy", slice="all", layers=(), attack="played", device="cpu", **more)
        monkeypatch.setitem(ATTACKS, "played", PlayedSearch(secret_of(experiment, toy)))
        return experiment

    return make
