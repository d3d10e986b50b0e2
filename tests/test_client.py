"""How a client trains: one dataclass, from whose fields everything that people see is made."""

import dataclasses
import json
import subprocess
import sys

import pytest
import torch

from demo.bench import rows
from demo.bench.benchmark import asked as asked_by
from demo.bench.options import parser
from demo.bench.server import APP
from demo.client.client import Client, with_text
from demo.client.defenses import Noise
from demo.runs.engine import Experiment, run, set_up
from demo.screen.messages import title
from demo.screen.reports import asked
from demo.settings import settings_of
from demo.ui.choices import DEFAULT, experiment_from, practised
from demo.ui.client_controls import offered
from demo.ui.controls import control_values
from demo.ui.limits import Limits
from demo.ui.link_format import fields, from_query
from demo.ui.survey_tabs import map_place, picked_in
from demo.victim.hub import ModelError
from demo.victim.llama import Llama
from demo.victim.model import Model
from demo.victim.models import FAMILIES, KEPT, MODELS, Shape, load, outline
from demo.victim.weights import Weights

LIMITS = Limits()
# In a process of its own: a client with one field more, before anything else of the house is there.
ADDED = """
import asyncio, dataclasses, json
import demo.client.client as client
from demo.settings import setting

rate = setting(0.5, "what each local step moves", 0.1, 2.0, label="Local rate", step=0.1)
Longer = dataclasses.make_dataclass("Client", [("local_rate", float, rate)], bases=(client.Client,), frozen=True)
client.Client, client.PLAIN = Longer, Longer()

import gradio as gr
from demo.bench.benchmark import asked
from demo.bench.options import parser
from demo.bench.rows import describe
from demo.screen.messages import title
from demo.screen.reports import asked as asked_of
from demo.ui.api import endpoint
from demo.ui.choices import DEFAULT, experiment_from
from demo.ui.compare_tab import change_of, menus, shown
from demo.screen.comparisons import Change, changed
from demo.ui.controls import client_side, control_values, experiment_of
from demo.ui.limits import Limits, Visitors
from demo.ui.link_controls import named, updates
from demo.ui.link_format import fields, from_query, to_query
from demo.victim.models import outline
import inspect

limits = Limits()
options = parser("").parse_args(["attack", "--sentences", "x", "--local-rate", "1.5"])
told = asked(options)
api = endpoint(limits, None, Visitors(limits))

async def page():
    with gr.Blocks():
        side = client_side(limits, DEFAULT.model, "")
        plain = [1.5 if one is side.client["local_rate"] else one.value for one in side.values]
        return side.client["local_rate"], plain, [menu.label for menu in menus("A", Change())]

control, values, compared = asyncio.run(page())
experiment = experiment_of(tuple(values), limits, None)
link = to_query(named(values), fields(limits, "minilm"))
read, notices = from_query(link.strip("?").replace("#", "&"), limits, "minilm")
before = asked_of(experiment)
del before["local_rate"]
print(json.dumps({
    "control": [type(control).__name__, control.label, control.info, control.minimum, control.maximum, control.value],
    "values": [len(values), len(control_values(experiment)), len(updates(read, "minilm"))],
    "page": experiment.client.local_rate,
    "menus": compared,
    "change": changed(experiment, change_of(*shown(Change(client=(("local_rate", 2.0),))))).client.local_rate,
    "link": [link, read["local_rate"], notices],
    "api": [inspect.signature(api).parameters["local_rate"].default, "what each local step moves" in api.__doc__],
    "cli": told.client.local_rate,
    "row": describe(told)["local_rate"],
    "report": experiment_from(limits, asked_of(experiment)).client.local_rate,
    "clamped": experiment_from(limits, asked_of(experiment) | {"local_rate": 99}).client.local_rate,
    "old": experiment_from(limits, before).client.local_rate,
    "title": title(experiment, outline("minilm")),
}))
"""


def test_a_new_field_is_added_in_one_place():
    done = subprocess.run([sys.executable, "-c", ADDED], capture_output=True, text=True, cwd=APP.parent, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["control"] == ["Slider", "Local rate", "what each local step moves", 0.1, 2.0, 0.5]
    assert len(set(told["values"])) == 1
    assert told["page"] == told["cli"] == told["row"] == told["report"] == 1.5
    assert "Local rate" in told["menus"]
    assert (told["change"], told["clamped"], told["old"]) == (2.0, 2.0, 0.5)
    link, read, notices = told["link"]
    assert "&local_rate=1.5" in link
    assert (read, notices) == (1.5, [])
    assert told["api"] == [0.5, True]
    assert " · local rate 1.5 · " in told["title"]


# -- companions, which were a defense ----------------------------------------------------------------------------------

AMONG = Experiment("two dogs bark", client=Client(companions=3))


@pytest.mark.parametrize("text", ["average=4", "companions=3"])
def test_what_was_a_defense_opens_wherever_it_is_written(text):
    assert with_text(Client(), text) == AMONG.client
    assert practised(["noise=1e-3", text]) == {"defenses": {"noise": {"noise_multiplier": 1e-3}}, "companions": 3}
    told = asked_by(parser("").parse_args(["attack", "--sentences", "x", "--defense", "sign", "--defense", text]))
    assert told.client == AMONG.client
    assert len(told.defenses) == 1


def test_old_links_among_clients_open():
    found, notices = from_query("defenses=average,noise&average.clients=3&dropout=0.1", LIMITS, "minilm")
    assert notices == []
    assert found == {"defenses": ["noise"], "companions": 2, "dropout": 0.1}
    assert from_query("defenses=average", LIMITS, "minilm")[0] == {"defenses": [], "companions": 3}
    assert from_query("average.clients=3", LIMITS, "minilm") == ({}, [])  # it was not on
    assert "companions" in fields(LIMITS, "minilm")


def test_old_reports_open():
    """From before companions and tasks were fields."""
    old = asked(DEFAULT) | {"defenses": {"average": {"clients": 4}, "noise": {"noise_multiplier": 0.5}}}
    del old["companions"], old["task"]
    picked = picked_in({"slice": "query", "layer": 1, "asked": json.loads(json.dumps(old))}, map_place, LIMITS)
    assert (picked.client, picked.defenses) == (Client(companions=3), (Noise(0.5),))


def test_old_rows_are_not_measured_again(tmp_path, monkeypatch):
    row = rows.describe(AMONG) | {"sentence": AMONG.sentence, "defenses": ["average=4"], "exact": True}
    del row["companions"], row["task"]
    (tmp_path / "old.jsonl").write_text(json.dumps(row) + "\n")
    monkeypatch.setattr(rows, "result", lambda experiment: pytest.fail("was measured already"))
    (known,) = rows.measure([AMONG], str(tmp_path / "old.jsonl"))
    assert known == row


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("average=many", "the strength of average is 'many': give a whole number"),
        ("companions=99", "companions is '99': give a number from 0 to 7"),
        ("task=poetry", "task is 'poetry': choose one of next-word, label"),
    ],
)
def test_wrong_fields_are_named(text, message):
    with pytest.raises(ValueError, match=message):
        with_text(Client(), text)


# -- tasks -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def causal(monkeypatch):
    """A small decoder, which has both tasks."""
    monkeypatch.setitem(FAMILIES, "causal-of-tests", Llama)
    monkeypatch.setitem(MODELS, "causal-of-tests", Shape("Causal", 2, 32, 2, 64, family="causal-of-tests"))
    yield "causal-of-tests"
    KEPT.things.clear()


def gradient(model, task):
    base = Experiment("two dogs bark", model=model, weights=Weights("normal", 0.1), slice="query", layers=(0,))
    case = set_up(dataclasses.replace(base, client=Client(task=task), device="cpu"))
    assert isinstance(case.model, Model)
    (found,) = case.leak.gradient.values()
    return found


def test_a_client_trains_on_the_task_that_it_is_told(causal):
    own, words, label = (gradient(causal, task) for task in ("", "next-word", "label"))
    assert torch.equal(own, words)
    assert not torch.allclose(words, label)
    assert load(causal, Weights("normal", 0.1)).told_by("label").net.labels == 2


def test_a_run_says_its_task(causal):
    experiment = Experiment("two dogs", model=causal, slice="query", layers=(0,), client=Client(task="label"), steps=2)
    assert " · task label · " in title(experiment, outline(causal))
    *_, frame = run(dataclasses.replace(experiment, attack="tag", device="cpu", seconds=20))
    assert frame.snapshot.step


def test_a_model_without_the_task_says_what_it_has():
    with pytest.raises(ModelError, match="minilm cannot be trained on next-word: its task is label"):
        set_up(Experiment("two dogs", client=Client(task="next-word")))


def test_the_task_is_offered_where_there_is_a_choice(causal):
    (task,) = (field for field in settings_of(Client) if field.name == "task")
    assert offered(task, causal)
    assert not offered(task, "minilm")


def test_the_models_own_rate_is_shown_as_a_number():
    experiment = dataclasses.replace(DEFAULT, client=Client(dropout=None))
    assert 0.1 in control_values(experiment)
    again = experiment_from(LIMITS, asked(experiment))
    assert again.client.dropout is None
