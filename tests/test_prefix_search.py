"""Search on small drawn decoders: each slice gives the sentence away, with proof, or is refused."""

import pickle
from itertools import pairwise

import pytest
import torch

from demo.attacker.attacks import ATTACKS, Budget
from demo.client.defenses import parse
from demo.client.secret import Secret
from demo.client.share import share
from demo.runs.engine import Experiment, run
from demo.victim.models import load
from demo.victim.slices import select, slices_of
from tests.conftest import LONG
from tests.drawn import BATCH, KINDS, REPEATED, SENTENCE, drawn, last, leak_of

CELLS = [  # each part of the network once deep and once shallow, a label where it makes a difference
    *[("next-word", name, None) for name in ("all", "encoder", "head", "embeddings")],
    *[("next-word", name, 0) for name in ("layer", "query", "key", "attention-output", "ffn-out")],
    *[("next-word", name, 1) for name in ("value", "ffn-gate")],
    *[
        ("next-word", name, 2)
        for name in ("layer", "key", "value", "attention-output", "ffn-gate", "ffn-in", "ffn-out")
    ],
    *[("label", name, None) for name in ("all", "head", "embeddings")],
    *[("label", name, 0) for name in ("query", "qkv")],
    *[("label", name, 1) for name in ("layer", "key", "ffn-in")],
    *[("label", name, 2) for name in ("layer", "key", "ffn-out")],
]


@pytest.fixture(scope="module", params=KINDS)
def kinds(request):
    """task -> the model"""
    return {task: drawn(request.param, task) for task in ("next-word", "label")}


@pytest.fixture(scope="module")
def llama():
    return drawn("llama, tied")


def tells_too_little(model, name, layer):
    """Of GPT-2's keys only differences; under a label, of the last layer a vector or one a head; of tables the words
    without their order, where no places are added and no output is read off them."""
    net = model.net
    if name == "embeddings":
        return not net.ADDED and bool(net.labels or not net.tied)
    if net.labels and (name == "head" or layer == 2):
        return True
    return name == "key" and bool(net.ADDED)


@pytest.mark.parametrize(("task", "name", "layer"), CELLS)
def test_the_sentence_is_found_and_proven(kinds, task, name, layer):
    """From one slice alone, length and label unknown; or it is refused, where what leaks does not tell."""
    model = kinds[task]
    if name not in slices_of(model):
        with pytest.raises(ValueError, match="choose one of"):
            leak_of(model, name, (layer,))
        return
    leak = leak_of(model, name, () if layer is None else (layer,), length=False, label=False)
    reason = ATTACKS["search"].supports(leak)
    assert (reason is not None) == tells_too_little(model, name, layer)
    if reason is None:
        shot = last(leak)
        assert model.text(shot.ids) == SENTENCE
        assert shot.certified
    else:
        assert reason.startswith(("no exposed matrix tells words apart", "the table of words tells which ones occur"))


@pytest.mark.parametrize("text", ["cat the the the", "the cat the cat sat the"])
@pytest.mark.parametrize(("name", "layers"), [("all", ()), ("value", (1,)), ("ffn-out", (2,)), ("key", (0,))])
def test_words_that_occur_again(llama, name, layers, text):
    shot = last(leak_of(llama, name, layers, text, length=False))
    assert shot.certified
    assert llama.text(shot.ids) == text


def test_a_first_word_said_twice_is_not_claimed_to_be_said_once(llama):
    """Where places only turn, the states of both are the same, and count once."""
    for told in (True, False):
        assert not last(leak_of(llama, "all", (), REPEATED, length=told)).certified


@pytest.mark.parametrize("name", ["all", "encoder"])
@pytest.mark.parametrize("told", [True, False])
def test_a_batch_is_found_and_proven(kinds, name, told):
    model = kinds["next-word"]
    leak = leak_of(model, name, (), BATCH, length=told, label=False)
    if ATTACKS["search"].supports(leak) is not None:
        assert (name, model.net.ADDED) == ("encoder", ("position",))  # whose layers do not tell words without places
        return
    shot = last(leak)
    assert shot.certified
    assert {model.text(ids) for ids in leak.sentences(shot.ids, shot.lengths)} == set(BATCH.splitlines())
    assert_a_tree(list(ATTACKS["search"].run(leak, Budget(LONG), 0)), leak.sentences(shot.ids, shot.lengths))


def test_the_tree_grows_along_the_sentence(llama):
    leak = leak_of(llama, "value", (1,), length=False)
    assert_a_tree(list(ATTACKS["search"].run(leak, Budget(LONG), 0)), [llama.encode(SENTENCE)])


def assert_a_tree(shots, sentences):
    """Numbers are given once, parents before their children, and each sentence but its last word is a path."""
    known = {0: ()}
    for grown in [grown for shot in shots for grown in shot.growth]:
        assert grown.parent in known
        assert grown.place == len(known[grown.parent])
        for branch in grown.branches:
            assert branch.parent == grown.parent
            assert 0 <= branch.chance <= 1
            if branch.number:
                assert branch.number not in known
                known[branch.number] = (*known[branch.parent], branch.id)
    assert {tuple(ids.tolist()[:-1]) for ids in sentences} <= set(known.values())


def test_its_snapshots_are_plain_and_rise(llama):
    shots = list(ATTACKS["search"].run(leak_of(llama, "value", (1,)), Budget(), 0))
    assert all(one.step < other.step for one, other in pairwise(shots))
    copy = pickle.loads(pickle.dumps(shots))
    assert [shot.growth for shot in copy] == [shot.growth for shot in shots]
    assert torch.equal(copy[-1].ids, shots[-1].ids)
    assert all(len(shot.ids) == len(shot.confidence) == len(shot.runners_up) for shot in shots)


@pytest.mark.parametrize(("name", "layer"), [("value", 1), ("query", 1), ("value", 0), ("all", 0)])
@pytest.mark.parametrize("text", [SENTENCE, BATCH])
def test_budgets_are_kept(llama, name, layer, text):
    """By a clock that is only played: once it says that time is over, at most one more snapshot comes."""
    leak = leak_of(llama, name, (layer,), text)
    if ATTACKS["search"].supports(leak) is not None:
        return
    for turns in (0, 2):
        now = [0.0]
        shots = ATTACKS["search"].run(leak, Budget(10.0, started=0.0, clock=lambda now=now: now[0]), 0)
        for _ in range(turns):
            next(shots)
        now[0] = 10.0
        assert len(list(shots)) <= 2
    assert len(list(ATTACKS["search"].run(leak, Budget(steps=3), 0))) <= 3


@pytest.mark.parametrize(
    ("dropout", "defenses", "reason"),
    [(0.1, (), "the client trains with dropout"), *[(0.0, (said,), "out of the span") for said in
     ("prune=0.9", "round=int8", "sign")]],
)  # fmt: skip
def test_what_it_cannot_attack_is_said(dropout, defenses, reason):
    model = drawn("gpt2")
    secret = Secret.of(model, [model.encode(SENTENCE)], [0], dropout)
    leak = share(model, secret, select(model, "value", (1,)), defenses=tuple(map(parse, defenses)))
    assert reason in ATTACKS["search"].supports(leak)


def test_more_words_than_a_matrix_has_directions_are_refused(llama):
    leak = leak_of(llama, "value", (1,), " ".join([SENTENCE] * 11))
    assert "fill its whole width" in ATTACKS["search"].supports(leak)


@pytest.mark.parametrize("name", ["dlg", "tag", "cosine", "grab"])
@pytest.mark.parametrize("slice", ["all", "value"])
@pytest.mark.parametrize("task", ["next-word", "label"])
def test_published_attacks_run_on_decoders(kinds, name, slice, task):
    leak = leak_of(kinds[task], slice, (1,))
    if ATTACKS[name].supports(leak) is None:
        shot = last(leak, name, steps=3)
        assert shot.ids.shape == (len(leak.sentences(shot.ids)[0]),)
        assert not shot.certified or kinds[task].text(shot.ids) == SENTENCE


def test_the_chat_model_gives_its_sentence_away():
    """One matrix of its layer 15, length unknown."""
    sentence = "The patient was diagnosed with diabetes last week."
    experiment = Experiment(sentence, model="smollm2", slice="ffn-in", layers=(15,), attack="search", device="cpu",
                            knows_length=False, seconds=1200.0)  # fmt: skip
    load("smollm2", device="cpu")
    *_, frame = run(experiment)
    assert frame.texts == (sentence,)
    assert frame.certified
