"""On a Space: its settings, and attacks on a GPU that is lent for the run."""

import json
import os
import pickle
import re
import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from gradio_client import Client
from gradio_client.exceptions import AppError

import app
from demo.bench.server import APP, serve
from demo.runs.engine import Experiment
from demo.runs.surveys import survey
from demo.screen.messages import messages
from demo.ui import computing, notes
from demo.ui.choices import DEFAULT
from demo.ui.computing import borrowed, on_gpu
from demo.ui.limits import Limits
from demo.victim.models import MODELS
from tests.test_server import ENDLESS, SENTENCE, finished, run

PINS = dict(re.findall(r"^([\w-]+)==(\S+)", (APP.parent / "requirements.txt").read_text(), re.M))


@pytest.fixture(scope="module")
def card():
    _, front, text = (APP.parent / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    assert text.lstrip().startswith("# Leakscope")
    return yaml.safe_load(front)


def test_the_space_is_described(card):
    assert card["sdk"] == "gradio"
    assert card["sdk_version"] == PINS["gradio"]
    assert (APP.parent / card["app_file"]) == APP
    assert card["python_version"] == "3.12"  # a string: as a number, 3.10 would be 3.1
    assert 0 < len(card["short_description"]) <= 60
    assert card["license"] == "mit"
    assert re.fullmatch(r"\d+[mh]", card["startup_duration_timeout"])
    assert set(card["models"]) <= {shape.hub for shape in MODELS.values()}
    preloaded = {line.split()[0] for line in card["preload_from_hub"]}
    assert preloaded <= {shape.hub for shape in MODELS.values()}
    assert {card["colorFrom"], card["colorTo"]} <= {"red", "blue", "indigo", "purple", "pink", "gray"}
    assert card["title"]
    assert card["emoji"]
    assert all(re.fullmatch(r"[a-z-]+", tag) for tag in card["tags"])


def test_the_gpu_is_asked_for_as_long_as_the_budget_and_a_margin():
    short = replace(DEFAULT, seconds=3)
    assert 3 + 3 <= borrowed(short) <= 3 + 15
    assert borrowed(replace(short, seconds=60)) == borrowed(short) + 57
    assert borrowed(replace(short, model="bert-large")) > borrowed(short) + 10  # which is more to load
    longest = Limits.from_environment({}, "cuda", lent=True).seconds
    assert all(borrowed(Experiment("a", model=model, seconds=longest)) <= 120 for model in MODELS)


def test_where_gpus_are_lent_an_attack_is_short_unless_one_asks_for_more():
    """A visitor has two minutes a day."""
    lent, own = (Limits.from_environment({}, "cuda", lent=lent) for lent in (True, False))
    assert lent.budget == 20
    assert lent.seconds == own.budget == 60
    assert Limits.from_environment({"LEAKSCOPE_USUAL": "30"}, "cuda", lent=True).budget == 30
    assert Limits.from_environment({"LEAKSCOPE_SECONDS": "5"}).budget == 5


def test_models_are_loaded_before_the_gpu_is_lent(monkeypatch):
    said = []
    monkeypatch.setattr(computing, "LENT", True)
    monkeypatch.setattr(computing, "prepare", lambda model, weights: said.append(model))
    monkeypatch.setitem(sys.modules, "spaces", SimpleNamespace(GPU=lambda duration: lambda stream: stream))

    def stream(*experiments):
        said.append("lent")
        yield len(experiments)

    assert list(on_gpu(stream)(DEFAULT, replace(DEFAULT, model="tinybert4"))) == [2]
    assert said == ["minilm", "tinybert4", "lent"]


def test_without_a_space_nothing_is_wrapped():
    """One code path: the very same function where no GPU is lent, whether `spaces` is installed or not."""
    assert on_gpu(computing.attacked) is computing.attacked
    assert not computing.LENT


def test_what_crosses_to_a_worker_and_back_can_be_pickled(minilm):
    experiment = replace(DEFAULT, slice="query", layers=(0,), seconds=5)
    for item in (experiment, *messages(experiment), *survey([experiment])):
        pickle.loads(pickle.dumps(item))


def test_where_gpus_are_lent_the_page_itself_computes_nothing(monkeypatch):
    """A backward pass before the fork would leave the workers without autograd's threads for their GPU."""
    monkeypatch.setattr(notes, "LENT", True)
    monkeypatch.setattr(notes, "set_up", lambda experiment: pytest.fail("a training step was taken"))
    about, cost = notes.attack_note(DEFAULT)
    assert about
    assert not cost


@pytest.mark.parametrize(
    ("environment", "host"),
    [({}, "127.0.0.1"), ({"LEAKSCOPE_HOST": "10.0.0.1"}, "10.0.0.1")],
)
def test_the_host(monkeypatch, environment, host):
    monkeypatch.delenv("LEAKSCOPE_HOST", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert app.parse([]).host == host


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    """The app as a Space with lent GPUs starts it, and what was noted of the loans."""
    folder = tmp_path_factory.mktemp("space")
    noted, group = folder / "noted.jsonl", folder / "cgroup"
    noted.touch()
    group.write_text("0::/\n")
    path = os.pathsep.join([str(Path(__file__).parent / "space"), os.environ.get("PYTHONPATH", "")])
    told = {
        "PYTHONPATH": path,
        "SPACE_ID": "me/leakscope",
        "SPACES_ZERO_GPU": "true",
        "SPACES_NOTED": str(noted),
        "SPACES_ZERO_DEVICE_API_URL": "http://127.0.0.1:9",
        "ZEROGPU_PROC_SELF_CGROUP_PATH": str(group),
    }

    def notes():
        return list(map(json.loads, noted.read_text().splitlines()))

    with serve(**told) as address:
        yield Client(address, verbose=False), notes
    for worker in {note["worker"] for note in notes() if "worker" in note}:  # they outlive a server that is killed
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def test_an_attack_runs_on_a_lent_gpu(space):
    client, noted = space
    told = run(client, slice="query", layers=[2], seconds=20)
    assert told[-1]["end"]["certified"]
    assert told[0]["start"]["device"] == "GPU"
    assert told[-1]["frame"]["tokens"] == told[0]["start"]["truth"]
    asked, allowed, *_, released = noted()
    assert allowed["worker"] != asked["by"]
    assert 20 < asked["asked"] < 40
    assert released == {"released": True, "by": asked["by"]}


def test_stop_ends_the_run_in_the_worker(space):
    client, noted = space
    before = len(noted())
    endless = client.submit(api_name="/attack", sentence=SENTENCE, **ENDLESS)
    next(iter(endless))
    endless.cancel()
    started = time.perf_counter()
    while "released" not in noted()[-1] or len(noted()) == before:
        assert time.perf_counter() - started < ENDLESS["seconds"] / 2
        time.sleep(0.1)
    other = Client(client.src, verbose=False)  # a client may take the end of its cancelled run for that of its next
    assert run(other, slice="all")[-1]["end"]["certified"]  # and the worker takes the next run


def test_what_is_wrong_is_told_from_the_worker(space):
    client, noted = space
    before = len(noted())
    with pytest.raises(AppError, match="span cannot attack this: no attention matrix"):
        finished(client.submit(api_name="/attack", sentence=SENTENCE, attack="span", layers=[3]))
    assert len(noted()) > before  # it was found out there, where the step is taken
