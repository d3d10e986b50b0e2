import math

import pytest

from demo.attacks import ATTACKS
from demo.attacks.base import settings_of, with_settings
from demo.ui import api
from demo.ui.choices import DEFAULT, PRESETS, Limits, check_sentence, clamped, experiment_from
from demo.ui.components import chosen_in, drawing_of
from demo.ui.page import attack_note, sentence_note

GOOD = {
    "sentence": "The cat sat.", "label": 1, "model": "minilm", "weights": None, "scale": 0.02, "slice": "query",
    "layers": [2], "attack": "best", "knows_length": True, "knows_label": True, "seconds": 60.0, "seed": 0,
    "settings": {},
}  # fmt: skip
LIMITS = Limits(seconds=90, tokens=20)


def test_good_values_make_an_experiment():
    experiment = experiment_from(LIMITS, **GOOD)
    assert (experiment.slice, experiment.layers, experiment.seconds) == ("query", (2,), 60)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sentence": ""}, "the sentence is empty"),
        ({"sentence": " \t\n"}, "the sentence is empty"),
        ({"sentence": "\u200b\u0000"}, "the sentence is empty"),
        ({"sentence": "word " * 300}, "300 tokens: this page takes at most 20"),
        ({"sentence": "x" * 3000}, "3000 characters: give at most 2000"),
        ({"model": "gpt-7"}, "unknown model 'gpt-7': choose one of minilm"),
        ({"slice": "bias"}, "unknown slice 'bias'"),
        ({"attack": "magic"}, "unknown attack 'magic'"),
        ({"weights": "pickle"}, "unknown weights 'pickle'"),
        ({"label": 2}, "label 2 does not exist: choose 0 or 1"),
        ({"seconds": math.nan}, "is not a number"),
        ({"seed": "x"}, "is not a number"),
    ],
)
def test_wrong_values_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        experiment_from(LIMITS, **{**GOOD, **change})


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"seconds": 1e9}, "seconds", 90),
        ({"seconds": -5}, "seconds", 1),
        ({"seed": -1}, "seed", 0),
        ({"seed": 10**12}, "seed", 2**31 - 1),
        ({"attack": "certified", "settings": {"patience": 10**9}}, "settings", (("patience", 50),)),
        ({"attack": "certified", "settings": {"patience": 3}}, "settings", ()),
        ({"layers": [3, 1, 3]}, "layers", (1, 3)),
    ],
)
def test_numbers_out_of_range_are_clamped(change, field, value):
    assert getattr(experiment_from(LIMITS, **{**GOOD, **change}), field) == value


def test_every_setting_of_every_attack_can_be_changed_within_its_bounds():
    for name, attack in ATTACKS.items():
        for field in settings_of(attack):
            bounds, kind = field.metadata, type(getattr(attack, field.name))
            extremes = bounds["choices"] or (
                (True, False) if kind is bool else (kind(bounds["low"]), kind(bounds["high"]))
            )
            for value in extremes:
                assert getattr(with_settings(attack, name, [(field.name, value)]), field.name) == value
            assert bounds["help"]
            if kind is not bool and not bounds["choices"]:
                assert bounds["low"] <= getattr(attack, field.name) <= bounds["high"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ([("colour", 1)], "certified has no setting 'colour': it has words"),
        ([("patience", 0)], "patience is 0: give a number from 1 to 50"),
        ([("patience", "many")], "patience is 'many'"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        with_settings(ATTACKS["certified"], "certified", settings)


def test_unknown_settings_reach_the_engine_that_refuses_them():
    assert clamped("certified", {"colour": 1}) == (("colour", 1),)


def test_limits_come_from_the_environment():
    assert Limits.from_environment({"LEAKSCOPE_SECONDS": "30", "LEAKSCOPE_TOKENS": "12"}) == Limits(30, 12)
    for text in ("many", "0", "-3"):
        with pytest.raises(ValueError, match="LEAKSCOPE_QUEUE is"):
            Limits.from_environment({"LEAKSCOPE_QUEUE": text})


def test_presets_fit(minilm):
    assert DEFAULT.sentence in PRESETS.values()
    for sentence in PRESETS.values():
        assert 5 <= check_sentence(Limits(), minilm, sentence) <= 15


def test_a_drawing_says_what_is_exposed():
    drawing = drawing_of("minilm", "query", [2])
    assert "147,456 of 22.7 M parameters, 0.65 %" in drawing
    assert chosen_in(drawing) == ("query", [2])
    assert chosen_in(drawing_of("tinybert4", "query", [5])) == ("query", [2])  # it has no layer 5


@pytest.mark.parametrize("value", ["", "{}", '{"slice": "query", "chosen": 3}', '{"slice": "x", "chosen": []}', "[]"])
def test_a_damaged_drawing_is_refused(value):
    with pytest.raises(ValueError, match=r"cannot be read|unknown slice"):
        chosen_in(value)


def test_notes_say_what_is_wrong(minilm):
    assert sentence_note(LIMITS, "minilm", "hello there").startswith("2 tokens (words or pieces of words). It stays")
    assert "1 of them are unknown to the model" in sentence_note(LIMITS, "minilm", "hello 😀")
    assert sentence_note(LIMITS, "minilm", "").startswith("⚠ the sentence is empty")
    wrong = experiment_from(LIMITS, **{**GOOD, "attack": "span"})
    assert attack_note(wrong).startswith("⚠ span cannot attack this: no attention matrix")
    assert attack_note(experiment_from(LIMITS, **GOOD)) == ATTACKS["best"].about


def test_a_bug_is_a_message_and_tells_nothing_of_the_sentence(monkeypatch, capsys):
    def broken(experiment):
        raise RuntimeError(f"could not digest {experiment.sentence}")
        yield

    monkeypatch.setattr(api, "messages", broken)
    (message,) = api.told(experiment_from(LIMITS, **GOOD))
    assert message["error"] == "the attack broke off (RuntimeError): try another model or slice"
    logged = capsys.readouterr()
    assert "RuntimeError" in logged.out
    assert GOOD["sentence"] not in logged.out + logged.err
