"""A public page: nobody takes all of it, nothing of the sentences stays, and nothing that runs code is loaded."""

import ast
import json
import urllib.error
import urllib.request
from pathlib import Path

import gradio as gr
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

import app
import demo
from demo.bench.server import served
from demo.runs.engine import Experiment
from demo.runs.surveys import cells
from demo.ui.api import endpoint
from demo.ui.limits import SECONDS, Limits, Visitors
from demo.ui.survey_tabs import paced
from tests.load import drive
from tests.test_server import ENDLESS, SENTENCE, run

CANARY = "Xylophone walruses guard the quarterly marzipan."


def test_budgets_by_device():
    assert SECONDS["cpu"] < SECONDS["cuda"]
    assert Limits.from_environment({}, "cuda").seconds == SECONDS["cuda"]
    assert Limits.from_environment({}, "xpu").seconds == SECONDS["cpu"]
    assert Limits.from_environment({"LEAKSCOPE_SECONDS": "7"}, "cuda", lent=True).seconds == 7
    options = app.parse(["--seconds", "11", "--device", "cpu"])
    assert app.limits_of(options) == Limits(11.0)


def test_models_on_offer():
    limits = Limits.from_environment({"LEAKSCOPE_MODELS": "tinybert4, minilm"})
    assert limits.models == ("minilm", "tinybert4")
    with pytest.raises(gr.Error, match="unknown model 'bert-large': choose one of minilm, tinybert4"):
        next(endpoint(limits, "cpu", Visitors(limits))("Hello.", model="bert-large"))
    for text in ("", "minilm,gpt"):
        with pytest.raises(ValueError, match="LEAKSCOPE_MODELS is"):
            Limits.from_environment({"LEAKSCOPE_MODELS": text})


def test_a_browser_and_an_address_have_a_number_of_runs_a_minute():
    """A class of three behind one address, each with two runs, and another address."""
    visitors = Visitors(Limits(per_visitor=2, per_address=5))
    for now, session in enumerate(["ann", "ann", "bob", "bob"]):
        visitors.count(session, "school", now)
    with pytest.raises(ValueError, match="you have started 2 runs within a minute: try again in 50 s"):
        visitors.count("ann", "school", 10)
    visitors.count("eve", "school", 10)
    with pytest.raises(ValueError, match=r"of your network have started 5 runs .*: try again in 49 s"):
        visitors.count("eve", "school", 11)
    visitors.count("dan", "home", 11)
    visitors.count("ann", "school", 60.5)  # the first of hers is a minute ago
    assert len(visitors.starts) < 7  # and is forgotten
    for _ in range(99):
        Visitors(Limits(per_visitor=0, per_address=0)).count("ann", "school", 0)


def test_a_survey_as_a_whole_has_a_limit():
    places = list(cells(Experiment("a cat", model="bert-base")))
    assert sum(experiment.seconds for experiment in paced(places, 60, Limits(survey=300))) == pytest.approx(300)
    assert paced(places[:3], 20, Limits())[0].seconds == 20
    assert paced(places, 20, Limits(survey=1))[0].seconds == 1


def test_nothing_that_runs_code_is_ever_loaded():
    """No pickles and no code from a hub: the only ways in are safetensors, checked by tests/test_models.py."""
    for file in Path(demo.__file__).parent.rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            names = {getattr(node, "id", None), getattr(node, "arg", None), getattr(node, "module", None)}
            assert not names & {"trust_remote_code", "pickle", "eval", "exec", "joblib"}, file
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.load", "np.load", "numpy.load"):
                raise AssertionError(f"{file} loads what may be a pickle")
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "BertModel.from_pretrained":
                told = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
                assert told["use_safetensors"] == "True"


def test_three_students_at_once(server):
    """The small version of `python -m tests.load`."""
    tally = drive(server, students=3, seconds=5, runs=6)
    assert not tally.wrong
    assert tally.ends.total() >= 6
    assert tally.ends["result"]


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """A server with few places and few runs, whose every file and word can be looked at."""
    home = tmp_path_factory.mktemp("home")
    for name in ("work", "tmp", "hf", "gradio"):
        (home / name).mkdir()
    environment = {
        "HOME": str(home),
        "TMPDIR": str(home / "tmp"),
        "HF_HOME": str(home / "hf"),
        "XDG_CACHE_HOME": str(home / "c"),
        "GRADIO_TEMP_DIR": str(home / "gradio"),
        "LEAKSCOPE_PER_VISITOR": "3",
        "LEAKSCOPE_MODELS": "minilm",
    }
    with served("--queue", "2", folder=home / "work", environment=environment) as server:
        yield server, home


def asked(address, **form):
    """An answer of the server, with its status."""
    data = json.dumps(form).encode() if form else None
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def join(address, ticket, session, **changed):
    """Starts a run as the page does: with its controls' values and, at the end, a ticket."""
    config = json.loads(asked(address + "config")[1])
    parts = {part["id"]: part["props"] for part in config["components"]}
    stage = next(number for number, props in parts.items() if props.get("elem_id") == "stage")
    event = next(event for event in config["dependencies"] if event["outputs"] == [stage])
    values = [changed.get(parts[n].get("elem_id"), parts[n].get("value")) for n in event["inputs"][:-1]]
    form = {"data": [*values, ticket], "fn_index": event["id"], "session_hash": session}
    assert asked(address + "gradio_api/queue/join", **form)[0] == 200


def heard(address, session):
    """All that the server says to a page, until its runs are over."""
    return asked(address + f"gradio_api/queue/data?session_hash={session}")[1]


def test_the_health_check_tells_nothing_else(public):
    server, _ = public
    assert asked(server.address + "health") == (200, "ok")


def test_programs_wait_in_line_too(public):
    """Gradio's direct routes would run beside the attack that is under way."""
    server, _ = public
    for route in ("gradio_api/run/attack", "gradio_api/api/attack", "gradio_api/run/predict"):
        status, told = asked(server.address + route, data=[SENTENCE], fn_index=0)
        assert status >= 400
        assert "frame" not in told


def test_a_waiting_page_is_told_its_place(public):
    server, _ = public
    first = Client(server.address, verbose=False).submit(api_name="/attack", sentence=SENTENCE, **ENDLESS)
    next(iter(first))
    join(server.address, 12345.5, "waiting", sentence=SENTENCE)
    assert asked(server.address + "line?ticket=12345.5") == (200, '{"before":1,"there":true}')
    assert asked(server.address + "line?ticket=777") == (200, '{"before":null,"there":false}')
    assert asked(server.address + "line?ticket=x")[0] == 400
    first.cancel()
    assert "Certified" in heard(server.address, "waiting")
    assert asked(server.address + "line?ticket=12345.5") == (200, '{"before":null,"there":false}')


def test_too_many_runs_are_refused_with_the_time_to_wait(public):
    server, _ = public
    client = Client(server.address, verbose=False)
    for _ in range(3):
        assert run(client, slice="all")[-1]["end"]["certified"]
    with pytest.raises(AppError, match="you have started 3 runs within a minute: try again in"):
        run(client, slice="all")
    assert run(Client(server.address, verbose=False), slice="all")[-1]["end"]["certified"]  # a neighbour may


def test_nothing_of_a_sentence_is_logged_or_kept(public):
    """Runs that succeed, that are refused, that are cancelled: then every file and every word printed is searched."""
    server, home = public
    wrong = (
        {"attack": "span", "layers": [3]},
        {"sentence": CANARY * 60},
        {"sentence": {"text": CANARY}},
        {"sentence": [CANARY]},
        {"model": CANARY},
        {"settings": {CANARY: 1}},
        {"seed": CANARY},
        {"layers": CANARY},
        {"weights": [CANARY]},
    )
    join(server.address, 1.5, "one", sentence=CANARY, seconds=2)
    assert "marzipan" not in heard(server.address, "one").split("truth")[0]
    join(server.address, 2.5, "two", sentence=CANARY, **{"attack-name": "span"})
    assert "span cannot attack this" in heard(server.address, "two")
    assert run(Client(server.address, verbose=False), sentence=CANARY, slice="query", layers=[0])[-1]["end"]
    for choice in wrong:
        with pytest.raises(AppError):
            run(Client(server.address, verbose=False), **{"sentence": CANARY, **choice})
    cancelled = Client(server.address, verbose=False).submit(api_name="/attack", sentence=CANARY, **ENDLESS)
    next(iter(cancelled))
    cancelled.cancel()
    events = json.loads(asked(server.address + "config")[1])["dependencies"]
    for event in events:  # what the page's own events are sent, of the wrong kind
        data = [CANARY] * len(event["inputs"])
        asked(server.address + "gradio_api/run/predict", data=data, fn_index=event["id"], session_hash="three")
    assert events
    kept = [file for file in home.rglob("*") if file.is_file()]
    for file in (*kept, server.log):
        text = file.read_bytes().decode(errors="replace").lower()
        for word in ("xylophone", "walrus", "marzipan"):
            assert word not in text, file
    assert not [file for file in (home / "gradio").rglob("*") if file.is_file()]
