"""Links: what they hold comes back, and what is wrong with them is said."""

import asyncio
import dataclasses
import random
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import gradio as gr
import pytest

from demo.attacker.attacks import ATTACKS
from demo.client.defenses import DEFENSES
from demo.runs.engine import Experiment
from demo.settings import settings_of
from demo.ui.choices import CHARACTERS, DEFAULT
from demo.ui.controls import OWN_SETTINGS, client_side, experiment_of
from demo.ui.limits import Limits
from demo.ui.link_controls import named, opening, updates
from demo.ui.link_format import HIDEABLE, LONGEST, MOST_FIELDS, MOST_NOTICES, fields, from_query, to_query

LIMITS = Limits(seconds=90)
TABS = ("attack", "map", "sweep")

# Every field of an experiment, and the field of a link that tells it; the others are the server's.
TOLD_BY = {
    "sentence": "sentence", "labels": "label", "model": "model", "weights": "weights", "slice": "slice",
    "layers": "layers", "attack": "attack", "knows_length": "knows", "knows_label": "knows", "seconds": "seconds",
    "seed": "seed", "settings": "search.patience", "client": "companions",
    "defenses": "defenses", "steps": None, "device": None,
}  # fmt: skip

CHANGES = [
    {"sentence": "Ünïcode 😀 שלום\nzwei & drei = #5 + 50% \"q\" 'r'\tend? <b>"},
    {"sentence": "one\ntwo\nthree", "label": "by turns"},
    {"label": 0},
    {"model": "tinybert4"},
    {"model": "bert-base", "weights": "pretrained", "layers": [11]},
    {"weights": "uniform"},
    {"weights": "normal", "scale": 0.1},
    {"slice": "all"},
    {"slice": "ffn-in", "layers": [0, 4, 5]},
    {"attack": "dlg"},
    {"knows": []},
    {"knows": ["label"]},
    {"seconds": 7.5},
    {"seed": 2**31 - 1},
    {"dropout": 0.15},
    {"frozen": True},
    {"companions": 3},
    {"model": "transformer", "companions": 1, "dropout": 0.3},
    {"defenses": list(DEFENSES)},
]


def another(field, value):
    """A value of a setting that is not its own."""
    bounds = field.metadata
    if bounds["choices"]:
        return next(choice for choice in bounds["choices"] if choice != value)
    if isinstance(value, bool):
        return not value
    return bounds["high"] if value != bounds["high"] else bounds["low"]


for name in OWN_SETTINGS:
    for field in settings_of(ATTACKS[name]):
        CHANGES.append({"attack": name, f"{name}.{field.name}": another(field, getattr(ATTACKS[name], field.name))})
for name, kind in DEFENSES.items():
    for field in settings_of(kind):
        CHANGES.append({"defenses": [name], f"{name}.{field.name}": another(field, getattr(kind(), field.name))})


@pytest.fixture(scope="module")
def plain():
    """The controls' values on a page that has just been opened."""

    async def build():
        with gr.Blocks():
            return [control.value for control in client_side(LIMITS, DEFAULT.model, "").values]

    with ThreadPoolExecutor() as thread:  # Blocks would make a loop of its own, and never close it
        return thread.submit(lambda: asyncio.run(build())).result()


def opened(values, plain):
    """The controls' values after a link with these was opened on a plain page."""
    told = updates(values, DEFAULT.model)
    kept = [old if new == gr.skip() else new for old, new in zip(plain, told, strict=True)]
    return tuple(new.value if isinstance(new, gr.Dropdown) else new for new in kept)


def read(link, tabs=()):
    """What the page hands over: the query string, and what stands behind the #."""
    return from_query(link.removeprefix("?").replace("#", "&"), LIMITS, DEFAULT.model, tabs)


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_every_control_comes_back(plain, change):
    there = opened(change, plain)
    experiment = experiment_of(there, LIMITS, None)
    assert experiment != experiment_of(tuple(plain), LIMITS, None)
    values, notices = read(to_query(named(there), fields(LIMITS, change.get("model", DEFAULT.model))))
    assert not notices
    back = opened(values, plain)
    assert named(back) == named(there)
    assert experiment_of(back, LIMITS, None) == experiment


def test_a_new_field_of_an_experiment_must_get_into_links():
    assert {field.name for field in dataclasses.fields(Experiment)} == set(TOLD_BY)
    table = fields(LIMITS, DEFAULT.model)
    told = set().union(*CHANGES)
    assert all(name in table and name in told for name in TOLD_BY.values() if name)


def test_a_link_says_the_whole_experiment_even_where_it_is_the_default(plain):
    """So that it means the same when defaults change; only settings and view are left out."""
    link = to_query(named(plain), fields(LIMITS, DEFAULT.model, TABS))
    assert link == (
        "?v=1&model=minilm&weights=pretrained&slice=query&layers=3&attack=best&label=1&knows=length,label&seconds=60"
        "&seed=0&dropout=0&frozen=0&defenses=#sentence=The%20patient%20was%20diagnosed%20with%20diabetes%20last%20week."
    )


def test_the_sentence_stands_in_no_address():
    query, behind = to_query({"sentence": "my secret"}, fields(LIMITS, DEFAULT.model)).split("#")
    assert query == "?v=1"
    assert behind == "sentence=my%20secret"
    assert read("?sentence=my+secret")[0] == {"sentence": "my secret"}  # but it is read there too


def test_the_view_comes_back():
    view = {
        "tab": "map",
        "projection": "3d",
        "speed": 0.25,
        "hide": ["label", "attack"],
        "present": True,
        "lesson": "one",
    }
    link = to_query(view, fields(LIMITS, DEFAULT.model, TABS))
    assert link == "?v=1&tab=map&projection=3d&speed=0.25&hide=label,attack&present=1&lesson=one"
    assert read(link, TABS) == (view, [])


@pytest.mark.parametrize(
    ("text", "values", "notice"),
    [
        ("seconds=999", {"seconds": 90}, "seconds is '999' in the link, which this page does not take: it became 90."),
        ("seconds=-inf", {"seconds": 1}, "it became 1."),
        ("seconds=nan", {}, "seconds is 'nan' in the link, so it stays 60: give a number from 1 to 90."),
        ("seconds=soon", {}, "so it stays 60"),
        ("seconds=", {}, "so it stays 60"),
        ("seed=-1", {"seed": 0}, "it became 0."),
        ("seed=1.5", {}, "give a whole number"),
        (f"seed={'9' * 5000}", {}, "give a whole number"),
        ("seed=99999999999", {"seed": 2**31 - 1}, "it became 2147483647."),
        ("dropout=0.9", {"dropout": 0.4}, "it became 0.4."),
        ("scale=7", {"scale": 1.0}, "it became 1."),
        ("layers=77", {"layers": [5]}, "it became 5."),
        ("layers=-3,2", {"layers": [0, 2]}, "it became 0,2."),
        ("layers=", {}, "so it stays 3"),
        ("layers=1,b", {}, "so it stays 3"),
        ("model=transformer&layers=5", {"model": "transformer", "layers": [2]}, "it became 2."),
        ("model=gpt-7", {}, "model is 'gpt-7' in the link, so it stays minilm: choose one of minilm, "),
        ("weights=pickle", {}, "choose one of pretrained, normal, uniform"),
        ("slice=bias", {}, "so it stays query"),
        ("attack=magic", {}, "so it stays best"),
        ("label=2", {}, "so it stays 1: choose one of 0, 1, turns."),
        ("knows=label,everything", {"knows": ["label"]}, "it became label."),
        ("frozen=yes", {}, "so it stays 0: choose one of 0, 1."),
        ("defenses=fog", {"defenses": []}, "it became empty."),
        ("noise.noise_multiplier=99", {"noise.noise_multiplier": 10.0}, "it became 10."),
        ("round.kind=fp4", {}, "so it stays fp16: choose one of fp16, int8."),
        ("certified.patience=x", {}, "so it stays 3"),
        ("search.colour=1", {}, "'search.colour' is no field of a link."),
        ("tab=kitchen", {}, "so it stays attack: choose one of attack, map, sweep."),
        ("projection=4d", {}, "so it stays 2d"),
        ("speed=3", {}, "so it stays 1: choose one of 0.25, 0.5, 1, 2, 4."),
        ("hide=label,go", {"hide": ["label"]}, "it became label."),
        ("lesson=../secret", {}, "so it is left out: give a name"),
        ("v=2&seed=3", {"seed": 3}, "The link is of another version: this page reads version 1."),
        ("slise=query", {}, "'slise' is no field of a link."),
        (f"{'x' * 500}=1", {}, f"'{'x' * 40}' is no field of a link."),
        (f"model={'y' * 500}", {}, f"model is '{'y' * 40}' in the link"),
        (f"sentence={'x' * (CHARACTERS + 1)}", {}, "sentence cannot be taken from the link"),
        ("&".join("seed=1" for _ in range(MOST_FIELDS + 1)), {}, f"more than {MOST_FIELDS} fields"),
        ("x" * (LONGEST + 1), {}, f"more than {LONGEST} characters"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_never_raised(text, values, notice):
    found, notices = read(text, TABS)
    assert found == values
    assert len(notices) == 1
    assert notice in notices[0]
    assert "xxxxx" not in notices[0] or "sentence" not in notices[0]  # a sentence is not repeated


@pytest.mark.parametrize("text", ["", "v=1", "__theme=dark", "utm_source=letter", "&&&", "seed=1&seed=2&__sign=x"])
def test_what_is_not_ours_is_passed_over(text):
    assert read(text)[1] == []


def test_many_notices_are_cut_short():
    _, notices = read("&".join(f"f{n}=1" for n in range(50)))
    assert len(notices) == MOST_NOTICES + 1
    assert notices[-1] == f"And {50 - MOST_NOTICES} more of this kind."


def test_noise_raises_nothing(plain):
    dice, names = random.Random(0), list(fields(LIMITS, DEFAULT.model, TABS))
    letters = "0123456789,.-+eE%&=#\x00\ud800é😀ab"
    for _ in range(300):
        given = [(dice.choice(names), "".join(dice.choices(letters, k=dice.randrange(9)))) for _ in range(5)]
        text = "&".join(f"{name}={value}" for name, value in given)
        opened(read(text, TABS)[0], plain)


def test_half_a_character_makes_a_link_too():
    assert to_query({"sentence": "a\ud800b"}, fields(LIMITS, DEFAULT.model)).endswith("#sentence=a%3Fb")


def test_the_head_hides_by_name():
    for name, place in HIDEABLE.items():
        assert f'[data-hide~="{name}"] :is({place})' in opening()


def test_requests_are_not_logged(running):
    """Not even a sentence in the query string of the page."""
    urllib.request.urlopen(f"{running.address}?sentence=unheard", timeout=60).read()
    said = running.log.read_text()
    assert "unheard" not in said
    assert "GET /" not in said


def test_links_from_before_open():
    """`certified` was the name of an attack; it is a verdict now."""
    found, notices = read("attack=certified&certified.words=99", TABS)
    assert notices == []
    assert (found["attack"], found["search.words"]) == ("search", 99)
    assert Experiment("a cat", attack="certified").attack == "search"
