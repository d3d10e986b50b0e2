import math

import pytest

from demo.attacker.attacks import ATTACKS
from demo.client.client import Client
from demo.client.defenses import DEFENSES, Noise, Prune, Round, Sign
from demo.client.secret import MOST_SENTENCES
from demo.settings import settings_of, with_settings
from demo.ui import computing, notes
from demo.ui.choices import (
    DEFAULT,
    PRESETS,
    Limits,
    check_batch,
    clamped,
    defenses_from,
    experiment_from,
    resized,
    written,
)
from demo.ui.defense_controls import chosen, heading, note_of, values_of
from demo.ui.drawing import chosen_in, drawing_of
from demo.ui.notes import attack_note, lines_of, sentence_note, training_note
from tests.conftest import LONG

GOOD = {
    "sentence": "The cat sat.", "labels": [1], "model": "minilm", "weights": None, "scale": 0.02, "slice": "query",
    "layers": [2], "attack": "best", "knows_length": True, "knows_label": True, "seconds": 60.0, "seed": 0,
    "settings": {}, "dropout": 0.0, "frozen_embeddings": False, "defenses": {},
}  # fmt: skip
LIMITS = Limits(seconds=90, tokens=20)


def test_good_values_make_an_experiment():
    experiment = experiment_from(LIMITS, GOOD)
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
        ({"sentence": "the\n" + "word " * 30}, "sentence 2 has 30 tokens: this page takes at most 20"),
        ({"sentence": "\n".join(["word " * 19] * 5)}, "the batch has 95 tokens: this page takes at most 80"),
        ({"sentence": "hi\n" * 17}, "the batch has 17 sentences: give at most 16"),
        ({"labels": [2]}, "label 2 does not exist: choose 0 or 1"),
        ({"labels": [0, 5], "sentence": "a\nb"}, "label 5 does not exist: choose 0 or 1"),
        ({"dropout": "much"}, "is not a number: give one from 0 to 0.4"),
        ({"seconds": math.nan}, "is not a number"),
        ({"defenses": {"magic": {}}}, "unknown defense 'magic': choose one of noise, prune"),
        ({"defenses": {"noise": {"noise_multiplier": None}}}, "noise_multiplier is None: give a number from 0.0 to 10"),
        ({"defenses": {"noise": {"noise_multiplier": math.nan}}}, "is not a number"),
        ({"defenses": {"round": {"kind": "fp4"}}}, "kind is 'fp4': choose one of fp16, int8"),
        ({"defenses": {"sign": {"strength": 1}}}, "sign has no setting 'strength'"),
        ({"seed": "x"}, "is not a number"),
        ({"sentence": 5}, "sentence: 5 is no text"),
        ({"labels": "1"}, "labels: '1' is no list"),
        ({"layers": [None]}, "layer None does not exist"),
        ({"settings": 3}, "settings: 3 is no dict"),
        ({"defenses": {"noise": 5}}, "defenses.noise: 5 is no dict"),
        ({"knows_length": "perhaps"}, "knows_length: 'perhaps' is no yes or no: give true or false"),
        ({"companions": None}, "companions: None is not a number: give one from 0 to 7"),
        ({"frozen_embeddings": "ice"}, "frozen_embeddings is 'ice': give true or false"),
        ({"task": "poetry"}, "task is 'poetry': choose one of next-word, label"),
        ({"colour": 1}, "there is no 'colour': choose from sentence, labels"),
    ],
)
def test_wrong_values_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        experiment_from(LIMITS, {**GOOD, **change})


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match="slice is missing: give all of sentence"):
        experiment_from(LIMITS, {name: value for name, value in GOOD.items() if name != "slice"})


def test_a_refusal_repeats_little_of_what_was_sent():
    with pytest.raises(ValueError, match="sentence: ") as refusal:
        experiment_from(LIMITS, {**GOOD, "sentence": ["my secret " * 20]})
    assert len(str(refusal.value)) < 80


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"seconds": 1e9}, "seconds", 90),
        ({"seconds": -5}, "seconds", 1),
        ({"seed": -1}, "seed", 0),
        ({"seed": 10**12}, "seed", 2**31 - 1),
        ({"attack": "search", "settings": {"patience": 10**9}}, "settings", (("patience", 50),)),
        ({"attack": "search", "settings": {"patience": 3}}, "settings", ()),
        ({"layers": [3, 1, 3]}, "layers", (1, 3)),
        ({"dropout": 0.9}, "dropout", 0.4),
        ({"dropout": -1}, "dropout", 0),
        ({"dropout": None}, "dropout", None),
        ({"labels": [True, 0]}, "labels", (1, 0)),
        ({"defenses": {"noise": {"noise_multiplier": 99, "steps": -3}}}, "defenses", (Noise(10.0, steps=1),)),
        ({"defenses": {"sign": {}, "prune": {"dropped": 2}}}, "defenses", (Prune(0.9999), Sign())),  # the table's order
    ],
)
def test_numbers_out_of_range_are_clamped(change, field, value):
    experiment = experiment_from(LIMITS, {**GOOD, **change})
    assert getattr(experiment.client if field == "dropout" else experiment, field) == value


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
        ([("colour", 1)], "search has no setting 'colour': it has words"),
        ([("patience", 0)], "patience is 0: give a number from 1 to 50"),
        ([("patience", "many")], "patience is 'many'"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        with_settings(ATTACKS["search"], "search", settings)


def test_unknown_settings_reach_the_engine_that_refuses_them():
    assert clamped(ATTACKS["search"], {"colour": 1}) == (("colour", 1),)


def test_limits_come_from_the_environment():
    assert Limits.from_environment({"LEAKSCOPE_SECONDS": "30", "LEAKSCOPE_TOKENS": "12"}) == Limits(30, tokens=12)
    for text in ("many", "0", "-3"):
        with pytest.raises(ValueError, match="LEAKSCOPE_QUEUE is"):
            Limits.from_environment({"LEAKSCOPE_QUEUE": text})


def test_presets_fit(minilm):
    assert DEFAULT.sentence in PRESETS.values()
    for sentence in PRESETS.values():
        (tokens,) = check_batch(Limits(), minilm, sentence)
        assert 5 <= len(tokens) <= 15


def test_a_batch_is_filled_up_with_presets_and_cut_down():
    full = resized("My own sentence.\n\nThe second.", 8)
    assert full.splitlines()[:3] == ["My own sentence.", "The second.", DEFAULT.sentence]
    assert len(set(full.splitlines())) == 8
    assert len(set(resized("", MOST_SENTENCES).splitlines())) == MOST_SENTENCES
    assert resized(full, 1) == "My own sentence."
    assert resized(DEFAULT.sentence, 8).splitlines() == list(PRESETS.values())
    assert [lines_of(text) for text in ("", "a", "a\n \nb", "a\n" * 30)] == [1, 1, 2, 16]


def test_a_drawing_says_what_is_exposed():
    drawing = drawing_of("minilm", "query", [2])
    assert "147,456 of 22.7 M parameters, 0.65 %" in drawing
    assert chosen_in(drawing) == ("query", [2])
    assert chosen_in(drawing_of("tinybert4", "query", [5])) == ("query", [2])  # it has no layer 5
    assert "10,795,394 of 22.7 M" in drawing_of("minilm", "all", [], client=Client(frozen_embeddings=True))
    assert "embeddings are frozen" in drawing_of("minilm", "embeddings", [], client=Client(frozen_embeddings=True))


@pytest.mark.parametrize("value", ["", "{}", '{"slice": "query", "chosen": 3}', '{"slice": "x", "chosen": []}', "[]"])
def test_a_damaged_drawing_is_refused(value):
    with pytest.raises(ValueError, match=r"cannot be read|unknown slice"):
        chosen_in(value)


@pytest.fixture
def patient(monkeypatch):
    """Notes wait for what they find out, however slow the machine."""
    monkeypatch.setattr(notes, "MOMENT", LONG)


def test_notes_say_what_is_wrong(minilm, patient):
    assert sentence_note(LIMITS, "minilm", "hello there").startswith("2 tokens (words or pieces of words). It stays")
    assert "1 of them is [UNK]: the model cannot read these characters" in sentence_note(LIMITS, "minilm", "hello 😀")
    assert sentence_note(LIMITS, "minilm", "hello there\n\nhi").startswith("2 sentences, 3 tokens (words")
    assert sentence_note(LIMITS, "minilm", "").startswith("⚠ the sentence is empty")
    wrong = experiment_from(LIMITS, {**GOOD, "attack": "span"})
    assert attack_note(wrong)[0].startswith("⚠ span cannot attack this: no attention matrix")
    assert attack_note(experiment_from(LIMITS, GOOD)) == (ATTACKS["best"].about, "")
    assert training_note("minilm", 1, 0, False, 0, "").label == "How the client trains"
    assert (
        training_note("minilm", 2, 0.1, True, 0, "").label
        == "How the client trains · dropout 0.1 · embeddings frozen · batch of 2"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dropout": 0.1, "attack": "span", "layers": [0]}, "the client trains with dropout"),
        ({"sentence": "one cat\ntwo dogs", "attack": "rows", "slice": "all"}, "rows reads one sentence"),
        ({"frozen_embeddings": True, "slice": "embeddings"}, "the client's embeddings are frozen"),
    ],
)
def test_notes_say_how_training_stands_in_the_way(minilm, patient, change, reason):
    assert reason in attack_note(experiment_from(LIMITS, {**GOOD, **change}))[0]


@pytest.mark.parametrize(
    ("texts", "defenses"),
    [
        ([], ()),
        (["noise=1e-3"], (Noise(1e-3),)),
        (["sign", "round=int8", "noise=1e9"], (Noise(10.0), Round("int8"), Sign())),
    ],
)
def test_defenses_can_be_written(texts, defenses):
    assert defenses_from(written(texts)) == defenses


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fog=1", "unknown defense 'fog': choose one of noise"),
        ("noise", "noise needs a strength: noise=0.001"),
        ("noise=much", "the strength of noise is 'much': give a number"),
        ("noise=nan", "is not a number"),
        ("sign=1", "sign has no strength"),
        ("round=fp4", "kind is 'fp4'"),
    ],
)
def test_wrongly_written_defenses_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        defenses_from(written([text]))


def test_defense_controls_tell_what_is_on():
    off = [value for kind in DEFENSES.values() for value in (False, *(f.default for f in settings_of(kind)))]
    assert chosen(off) == {}
    assert heading(off) == "Defenses"
    assert heading([True, 0.5, *off[2:]]) == "Defenses · noise=0.5"
    assert heading([True, None, *off[2:]]).startswith("Defenses · ⚠ noise_multiplier is None")
    (noise,) = defenses_from(chosen(values_of([Noise(0.25)])))
    assert noise == Noise(0.25)


def test_the_privacy_of_noise_is_said():
    assert note_of("noise", False, 1.0, 1.0, 0.01, 1000, 1e-5) == ""
    note = note_of("noise", True, 1.0, 1.0, 0.01, 1000, 1e-5)
    assert note == "ε = 2.1 at δ = 1e-05, for q = 0.01, 1,000 steps (Opacus' Rényi accountant)."
    assert note_of("noise", True, 1e-3, 1.0, 0.01, 1000, 1e-5).startswith("No privacy guarantee (ε above 10⁶)")
    assert note_of("noise", True, None, 1.0, 0.01, 1000, 1e-5).startswith("⚠ noise_multiplier is None")


def test_what_a_defense_costs_is_said(minilm):
    about, cost = attack_note(experiment_from(LIMITS, {**GOOD, "defenses": {"prune": {"dropped": 0.9}}}))
    assert about == ATTACKS["best"].about
    assert cost.startswith("In this step, the shared gradient keeps a cosine of 0.")


def test_a_bug_is_a_message_and_tells_nothing_of_the_sentence(monkeypatch, capsys):
    def broken(experiment):
        raise RuntimeError(f"could not digest {experiment.sentence}")
        yield

    monkeypatch.setattr(computing, "messages", broken)
    (message,) = computing.told(experiment_from(LIMITS, GOOD))
    assert message["error"] == "the attack broke off (RuntimeError): try another model or slice"
    logged = capsys.readouterr()
    assert "RuntimeError" in logged.out
    assert GOOD["sentence"] not in logged.out + logged.err
