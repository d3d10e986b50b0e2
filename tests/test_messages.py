import json

import pytest

from demo.engine import Experiment, run, set_up
from demo.messages import BLANK, STARTS, exposed, marks, messages, place

SENTENCE = "The cat sat on the mat."


@pytest.fixture(scope="module")
def told(minilm):
    experiment = Experiment(SENTENCE, slice="query", layers=(2,), device="cpu")
    return list(messages(experiment))


def test_a_run_from_start_to_verdict(told):
    assert len(told) > 10
    assert all("start" in message for message in told[:STARTS])
    assert not any("start" in message for message in told[STARTS:-1])
    assert [message["frame"]["n"] for message in told] == list(range(len(told)))
    assert told[0]["frame"]["tokens"] == [BLANK] * 7
    assert told[0]["frame"]["marks"] == "x" * 7
    assert {message["run"] for message in told} == {told[0]["run"]}
    last = told[-1]
    assert last["frame"]["tokens"] == last["start"]["truth"] == ["the", "cat", "sat", "on", "the", "mat", "."]
    assert last["frame"]["marks"] == "=" * 7
    assert last["frame"]["points"] == last["start"]["truth_points"]
    assert last["end"]["certified"]
    assert last["end"]["headline"].startswith("Certified")
    assert [n for n, message in enumerate(told) if "end" in message] == [len(told) - 1]


def test_messages_are_small_plain_json(told):
    for message in told[STARTS:-1]:
        assert len(json.dumps(message, separators=(",", ":"))) <= 2000
    json.dumps(told, allow_nan=False)


def test_points_travel(told):
    """The picture moves: the dummies' points differ between frames, and end on the true ones."""
    assert len({json.dumps(message["frame"]["points"]) for message in told}) > 5


def test_frames_hold_what_the_engine_says(minilm):
    """The oracle is the engine's own stream: same tokens, same scores, in the same order."""
    experiment = Experiment(SENTENCE, slice="value", layers=(0,), attack="span", device="cpu")
    case = set_up(experiment)
    frames = list(run(experiment, case))
    told = list(messages(experiment, case, gap=0))[:-1]
    assert [m["frame"]["tokens"] for m in told] == [
        [BLANK if token == "[MASK]" else token for token in minilm.tokens(frame.snapshot.ids[1:-1])] for frame in frames
    ]
    assert [m["frame"]["recover"] for m in told] == [round(100 * frame.scores.recover_rate) for frame in frames]


def test_a_span_check_shows_its_candidates_at_every_place(minilm):
    experiment = Experiment(SENTENCE, slice="query", layers=(0,), attack="span", device="cpu")
    told = [message["frame"]["candidates"] for message in messages(experiment, gap=9)]
    assert [candidates["place"] for candidates in told[:7]] == [1, 2, 3, 4, 5, 6, 7]
    for candidates, word in zip(told, ["the", "cat", "sat", "on", "the", "mat", "."], strict=False):
        assert candidates["words"][0] == word
        assert candidates["distances"] == sorted(candidates["distances"])
        assert candidates["distances"][0] < 0.01 * candidates["distances"][1]


def test_a_fast_attack_does_not_flood_the_screen(minilm):
    experiment = Experiment(SENTENCE, slice="layer", layers=(1,), attack="dlg", steps=12, device="cpu")
    assert len(list(messages(experiment, gap=1e9))) == 2  # the first, and the last with its verdict


def test_an_attack_that_fails_says_how_far_it_got(minilm):
    experiment = Experiment(SENTENCE, slice="layer", layers=(4,), attack="dlg", steps=3, device="cpu")
    end = list(messages(experiment))[-1]["end"]
    assert not end["certified"]
    assert not end["exact"]
    assert end["headline"] == "Not recovered: the budget is spent."
    assert "0 of 7 tokens in place" in end["detail"]


@pytest.mark.parametrize(
    ("truth", "guess", "expected"),
    [
        ([1, 2, 3], [1, 2, 3], "==="),
        ([1, 2, 3], [3, 2, 1], "~=~"),
        ([1, 2, 3], [2, 2, 2], "x=x"),  # 2 is there once: a repetition of it is not the right word elsewhere
        ([1, 1, 3], [9, 1, 1], "x=~"),
        ([1, 2], [2, 3, 1], "~x~"),  # the attacker read the length wrongly
        ([1, 2, 3], [1], "="),
    ],
)
def test_marks(truth, guess, expected):
    assert marks(truth, guess) == expected


def test_words_for_people():
    assert exposed(147_456, 147_456 / 22_713_986) == "147,456 of 22.7 M parameters, 0.65 %"
    assert place("query", (2,)) == "attention query of layer 2"
    assert place("layer", (0, 3)) == "layers 0 and 3"
    assert place("all", ()) == "everything"
