"""Whatever is sent: a run, or a refusal that says what is wrong. LEAKSCOPE_FUZZ=5000 tries as many, at random."""

import json
import os

import gradio as gr
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from demo.attacker.attacks import ATTACKS
from demo.client.client import Client
from demo.client.defenses import DEFENSES
from demo.screen.reports import asked
from demo.settings import settings_of
from demo.ui.api import endpoint
from demo.ui.asked import WEIGHTS
from demo.ui.choices import DEFAULT, PRESETS
from demo.ui.controls import OWN_SETTINGS, experiment_of, labels_for
from demo.ui.drawing import chosen_in
from demo.ui.limits import Limits, Visitors
from demo.ui.link_format import MOST_NOTICES, fields, from_query, to_query
from demo.ui.survey_tabs import map_place, picked_in, strengths_in, sweep_place
from demo.victim.slices import SLICES

EXAMPLES = int(os.environ.get("LEAKSCOPE_FUZZ", "0"))
LIMITS = Limits(seconds=0.05, tokens=12, models=("minilm", "transformer", "llama-tiny"))


def tried(examples):
    """Some examples, the same each time; or as many as are asked for, new ones."""
    return settings(
        max_examples=EXAMPLES or examples,
        derandomize=not EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


# What JSON can carry, and what a browser makes of it.
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just(10**400)
junk = plain | st.lists(plain, max_size=3) | st.dictionaries(st.text(max_size=8), plain, max_size=3)
own_names = sorted({field.name for attack in ATTACKS.values() for field in settings_of(attack)})
defenses = st.builds("{}={}".format, st.sampled_from(list(DEFENSES)), st.floats() | st.text(max_size=6))
sentences = st.sampled_from(list(PRESETS.values())) | st.text(max_size=60) | st.just("\n".join(["hi there"] * 3))

GOOD = {
    "sentence": sentences,
    "model": st.sampled_from(LIMITS.models),
    "slice": st.sampled_from(list(SLICES)),
    "layers": st.lists(st.integers(-1, 6), max_size=3),
    "attack": st.sampled_from(list(ATTACKS)),
    "labels": st.lists(st.integers(-1, 2), max_size=3),
    "weights": st.none() | st.sampled_from(WEIGHTS),
    "scale": st.floats(),
    "knows_length": st.booleans(),
    "knows_label": st.booleans(),
    "seconds": st.floats(),
    "seed": st.integers(),
    "settings": st.none() | st.dictionaries(st.sampled_from(own_names), plain, max_size=2),
    "dropout": st.none() | st.floats(),
    "frozen_embeddings": st.booleans(),
    "companions": st.integers(-1, 9),
    "task": st.sampled_from(["", "next-word", "label"]),
    "defenses": st.lists(defenses | st.just("sign"), max_size=2),
}


@st.composite
def calls(draw, wrong=2):
    """The endpoint's arguments: some left out, at most a few of them nothing that makes sense."""
    chosen = draw(st.sets(st.sampled_from(sorted(GOOD))))
    odd = draw(st.sets(st.sampled_from(sorted(GOOD)), max_size=wrong))
    return {"sentence": "Two dogs bark.", **{name: draw(junk if name in odd else GOOD[name]) for name in chosen | odd}}


def tell(act, refusal):
    """What comes of it: a result, or a refusal of that kind; anything else is a bug."""
    try:
        return act(), None
    except refusal as problem:
        return None, problem


def clear(message):
    """It says something, in few words, and is not how a bug is told."""
    return 10 < len(message) < 500 and "broke off" not in message


@pytest.fixture(scope="module")
def attack():
    return endpoint(LIMITS, "cpu", Visitors(LIMITS))


@tried(50)
@given(calls())
def test_any_call_is_a_run_or_a_clear_refusal(attack, call):
    told, refusal = tell(lambda: list(attack(**call)), gr.Error)
    if refusal is not None:
        assert clear(refusal.message), refusal.message
        return
    frames = [message["frame"]["n"] for message in told if "frame" in message]
    assert frames == list(range(len(frames)))
    assert told[-1]["end"]["headline"]
    json.dumps(told, allow_nan=False)


@tried(100)
@given(st.data())
def test_any_values_of_the_page_are_an_experiment_or_a_clear_refusal(data):
    """As a browser may send them, which need not be ours."""
    own = [f for name in OWN_SETTINGS for f in settings_of(ATTACKS[name])]
    defended = [value for kind in DEFENSES.values() for value in (None, *settings_of(kind))]
    names = ["sentence", "labels", "model", "weights", "scale", "drawing", "attack", "knows", "seconds", "seed"]
    names += [field.name for field in settings_of(Client)]
    picked = st.builds(lambda slice, layers: json.dumps({"slice": slice, "chosen": layers}), GOOD["slice"], junk)
    strategies = {
        **GOOD,
        "drawing": picked | junk,
        "knows": st.just(["length"]),
        "labels": st.sampled_from([0, 1, "by turns"]),
    }
    odd = data.draw(st.sets(st.sampled_from(names), max_size=2))
    values = [data.draw(junk if name in odd else strategies[name]) for name in names]
    values += [data.draw(plain) for _ in (*defended, *own)]
    _, refusal = tell(lambda: experiment_of(tuple(values), LIMITS, "cpu"), ValueError)
    assert refusal is None or clear(str(refusal)), refusal


@tried(200)
@given(junk)
def test_any_value_of_a_control_is_read_or_refused(value):
    for read in (chosen_in, strengths_in, lambda value: labels_for(value, "a\nb")):
        _, refusal = tell(lambda read=read: read(value), ValueError)
        assert refusal is None or clear(str(refusal)), refusal


@tried(200)
@given(st.data())
def test_any_picked_place_of_a_survey_is_an_experiment_or_a_clear_refusal(data):
    told = asked(DEFAULT)
    for name in data.draw(st.sets(st.sampled_from(sorted(told)), max_size=2)):
        told[name] = data.draw(junk | GOOD.get(name, plain))
    row = {"slice": data.draw(GOOD["slice"] | junk), "layer": data.draw(plain), "defense": data.draw(defenses | plain)}
    for place in (map_place, sweep_place):
        _, refusal = tell(lambda place=place: picked_in({**row, "asked": told}, place, LIMITS), ValueError)
        assert refusal is None or clear(str(refusal)), refusal


parts = st.tuples(st.sampled_from(sorted(fields(LIMITS, "minilm"))) | st.text(max_size=8), plain.map(str) | st.text())


@tried(200)
@given(st.text(max_size=200) | st.lists(parts, max_size=8).map(lambda pairs: "&".join(f"{a}={b}" for a, b in pairs)))
def test_any_link_is_read_and_what_is_left_of_it_is_a_good_link(text):
    values, notices = from_query(text, LIMITS, "minilm")
    assert len(notices) <= MOST_NOTICES + 1
    assert all(clear(notice) for notice in notices), notices
    again = to_query(values, fields(LIMITS, values.get("model", "minilm"))).lstrip("?").replace("#", "&")
    read, wrong = from_query(again, LIMITS, "minilm")
    assert not wrong
    assert {name: read.get(name, value) for name, value in values.items()} == values
