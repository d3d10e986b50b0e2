import base64
import itertools
import json

import numpy as np
import pytest
import torch

from demo.attacker.attacks import Budget
from demo.attacker.attacks.base import snapshot
from demo.client.client import Client
from demo.runs.engine import Experiment, run, scored, set_up
from demo.screen.messages import BLANK, STARTS, Show, exposed, laid_out, marks, messages, place, title, verdict
from demo.victim.models import outline

SENTENCE = "The cat sat on the mat."
BATCH = f"{SENTENCE}\nTwo dogs bark."


def new(items, step):
    """What is shown again while a slow machine computes is left out."""
    return [next(same) for _, same in itertools.groupby(items, step)]


@pytest.fixture(scope="module")
def told(minilm):
    experiment = Experiment(SENTENCE, slice="query", layers=(2,), device="cpu")
    return [message for message in messages(experiment, gap=0) if "frame" in message]


def framed(experiment):
    """The messages with frames; on a slow machine, some before them tell the progress."""
    return [message for message in messages(experiment) if "frame" in message]


def test_a_run_from_start_to_verdict(told):
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
    frames = new(run(experiment, case), lambda frame: frame.snapshot.step)
    told = new(messages(experiment, case, gap=0), lambda message: message["frame"]["step"])
    assert [m["frame"]["tokens"] for m in told] == [
        [BLANK if token == "[MASK]" else token for token in minilm.tokens(frame.snapshot.ids[1:-1])] for frame in frames
    ]
    assert [m["frame"]["recover"] for m in told] == [round(100 * frame.scores.recover_rate) for frame in frames]


def test_a_span_check_shows_its_candidates_at_every_place(minilm):
    experiment = Experiment(SENTENCE, slice="query", layers=(0,), attack="span", device="cpu")
    shown = [message["frame"] for message in messages(experiment, gap=9) if "frame" in message]
    told = [frame["candidates"] for frame in shown if "candidates" in frame]
    assert [candidates["place"] for candidates in told[:7]] == [1, 2, 3, 4, 5, 6, 7]
    for candidates, word in zip(told, ["the", "cat", "sat", "on", "the", "mat", "."], strict=False):
        assert candidates["words"][0] == word
        assert candidates["distances"] == sorted(candidates["distances"])
        assert candidates["distances"][0] < 0.01 * candidates["distances"][1]


def test_a_fast_attack_does_not_flood_the_screen(minilm):
    experiment = Experiment(SENTENCE, slice="layer", layers=(1,), attack="dlg", steps=12, device="cpu")
    told = [message for message in messages(experiment, gap=1e9) if "frame" in message]
    assert len(told) == 2  # the first, and the last with its verdict


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
        ([1, 2, 3], [3], "~"),
    ],
)
def test_marks(truth, guess, expected):
    assert marks(truth, guess) == expected


def test_words_for_people():
    assert exposed(147_456, 147_456 / 22_713_986) == "147,456 of 22.7 M parameters, 0.65 %"
    minilm = outline("minilm")
    assert place(minilm, "query", (2,)) == "attention query of layer 2"
    assert place(minilm, "layer", (0, 3)) == "layers 0 and 3"
    assert place(minilm, "all", ()) == "everything"
    assert place(minilm, "head", ()) == "pooler + classifier"
    assert place(outline("smollm2"), "head", ()) == "final norm + word table"


@pytest.mark.parametrize(
    ("rooms", "guessed", "expected"),
    [
        ([3], [5], [1, 2, 3]),
        ([3], [4], [1, 2, -1]),  # too short: a blank
        ([2], [5], [1, 2, 3]),  # too long: nothing is cut
        ([2, 1], [4, 3], [1, 2, 5]),
        ([2, 2], [3, 4], [1, -1, 4, 5]),  # the second sentence stays beside its truth
        ([1, 2], [5, 4], [1, 6, 7, 2, 3]),  # what goes beyond the first comes after both
    ],
)
def test_each_guessed_sentence_is_laid_beside_its_true_one(rooms, guessed, expected):
    assert laid_out(rooms, guessed, lambda length: slice(1, length - 1)) == expected


def test_a_batch_from_start_to_verdict(minilm):
    experiment = Experiment(BATCH, slice="all", layers=(), device="cpu")
    told = framed(experiment)
    start, last = told[0]["start"], told[-1]
    assert start["truth"] == ["the", "cat", "sat", "on", "the", "mat", ".", "two", "dogs", "bark", "."]
    assert start["breaks"] == [7]
    assert start["title"] == "MiniLM-L6, pretrained · everything · batch of 2 · best"
    for message in told:
        frame = message["frame"]
        sizes = {len(frame[name]) for name in ("tokens", "marks", "sure", "others", "points")}
        assert len(sizes) == 1
        assert min(sizes) >= 11
        assert not {"[CLS]", "[SEP]"} & set(frame["tokens"])
    assert last["frame"]["tokens"] == start["truth"]
    assert last["frame"]["points"] == start["truth_points"]
    assert last["end"]["headline"].startswith("Certified: these sentences, and no others tried, have")
    assert "11 of 11 tokens in place" in last["end"]["detail"]


def guessed(experiment, *sentences, **more):
    """The case, and a frame in which the attacker has these sentences."""
    case = set_up(experiment)
    ids = torch.cat([case.model.encode(sentence) for sentence in sentences])
    return case, scored(case, snapshot(case.model, Budget(), 1, ids, 1.0, "", **more), 0.0)


def test_guessed_sentences_of_other_lengths_keep_their_rows(minilm):
    experiment = Experiment(BATCH, slice="all", layers=(), device="cpu")
    case, frame = guessed(experiment, "The cat sat on the red mat too.", "Dogs.")
    told = Show(experiment, case).frame(0, frame)
    assert told["tokens"] == ["the", "cat", "sat", "on", "the", "red", "mat", "dogs", ".", BLANK, BLANK, "too", "."]
    assert told["marks"] == "=====x~~~xxx~"
    assert told["sure"] == [100] * 9 + [0, 0, 100, 100]
    assert len(told["points"]) == len(told["others"]) == 13
    assert "5 of 11 tokens in place" in verdict(frame, case, experiment)[1]


def test_blanks_beyond_a_sentence_are_no_words(minilm):
    experiment = Experiment(BATCH, slice="all", layers=(), device="cpu")
    case = set_up(experiment)
    shot = snapshot(minilm, Budget(), 1, minilm.blank(6, 12), 1.0, "")
    assert Show(experiment, case).frame(0, scored(case, shot, 0.0))["tokens"] == [BLANK] * 11


def test_masks_travel_as_the_attack_read_them(minilm):
    experiment = Experiment(SENTENCE, slice="value", layers=(0,), client=Client(dropout=None), device="cpu")
    case = set_up(experiment)
    told = [message for message in messages(experiment, case) if message["frame"]["step"]]  # a slow machine gets ready
    kept = list(run(experiment, case))[-1].snapshot.kept
    assert told[-1]["start"]["title"] == "MiniLM-L6, pretrained · attention value of layer 0 · dropout 0.1 · best"
    assert [bool(mask) for mask in told[0]["frame"]["masks"]] == [True] + [False] * 6  # one word is read
    last = told[-1]["frame"]
    for mask, bits in zip(last["masks"], kept[1:-1], strict=True):
        assert np.unpackbits(np.frombuffer(base64.b64decode(mask), np.uint8)).tolist() == bits.int().tolist()
    assert min(last["masks_right"]) >= 98
    assert len(json.dumps(last, separators=(",", ":"))) <= 3000
    end = told[-1]["end"]
    assert end["certified"]
    assert "on at least 8" in end["detail"]
    assert "% of its coordinates; dropout of 0.1 keeps 90 %" in end["detail"]


def test_without_dropout_there_are_no_masks(told):
    assert not any("masks" in message["frame"] or "masks_right" in message["frame"] for message in told)


@pytest.mark.parametrize(
    ("choice", "headline", "detail"),
    [
        (
            {"slice": "embeddings"},
            "Certified: this sentence accounts for every row",
            "exactly the sums of the position",
        ),
        ({"slice": "key", "layers": (0,)}, "Certified: every word of this sentence fits", "dropout of 0.1 keeps 81 %"),
    ],
)
def test_certificates_through_dropout_say_what_they_prove(minilm, choice, headline, detail):
    end = list(messages(Experiment(SENTENCE, client=Client(dropout=0.1), device="cpu", **choice)))[-1]["end"]
    assert end["headline"].startswith(headline)
    assert detail in end["detail"]
    assert "7 of 7 tokens in place" in end["detail"]


@pytest.mark.parametrize(
    ("sentences", "dropout", "headline"),
    [
        (SENTENCE, 0.0, "the attacker has the sentence and cannot be sure of it"),
        (BATCH, 0.0, "the attacker has the sentences and cannot be sure of them"),
        (SENTENCE, 0.1, "dropout hides the proof"),
    ],
)
def test_a_find_without_a_certificate_is_called_so(minilm, sentences, dropout, headline):
    experiment = Experiment(sentences, slice="layer", attack="tag", client=Client(dropout=dropout), device="cpu")
    case, frame = guessed(experiment, *sentences.splitlines())
    assert verdict(frame, case, experiment)[0] == f"Recovered, but not certified: {headline}."


def test_a_title_tells_how_the_client_trains(minilm):
    experiment = Experiment(BATCH, slice="all", client=Client(dropout=0.25, frozen_embeddings=True))
    assert title(experiment, minilm).endswith(" · everything · dropout 0.25 · embeddings frozen · batch of 2 · best")
