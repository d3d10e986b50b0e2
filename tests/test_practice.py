"""Attacks on clients as they really train: with dropout, with frozen embeddings, on batches."""

from dataclasses import replace

import pytest
import torch

from demo.attacker.attacks import ATTACKS, Budget
from demo.attacker.attacks.base import snapshot, solved_labels, weighed
from demo.attacker.attacks.batch import telling_view
from demo.attacker.attacks.batch_by_words import Assembly
from demo.attacker.attacks.grab import Grab, Hunt
from demo.attacker.attacks.robust import SHORTLIST, agreement, expected_share, least_share, readable_view
from demo.attacker.attacks.rows import rebuilt
from demo.attacker.attacks.sentence_moves import combined, longer, reorderings, segments, shorter
from demo.attacker.attacks.span import residuals
from demo.attacker.certificate import certify
from demo.client.client import Client
from demo.client.defenses import Noise
from demo.client.secret import Secret
from demo.client.share import share
from demo.runs.engine import Experiment, run, set_up
from demo.victim.slices import select
from tests.conftest import LONG

SENTENCE = "the nurse gave the old man his pills"
BATCH = "the nurse gave the old man his pills\nwe met a tall stranger near the river"


def last(name, leak, seconds=LONG, seed=0):
    *_, shot = ATTACKS[name].run(leak, Budget(seconds), seed)
    return shot


# -- dropout ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "rate"), [("value", 0.1), ("value", 0.4), ("query", 0.3), ("key", 0.1), ("key", 0.2), ("query", 0.0)]
)
def test_robust_span_reads_through_dropout(minilm, leak_of, part, rate):
    shot = last("robust-span", leak_of(minilm, part, (0,), SENTENCE, rate, length=False, label=False))
    assert minilm.text(shot.ids) == SENTENCE
    assert shot.certificate.proof == "span"
    assert shot.certified


def test_robust_span_finds_the_mask(minilm):
    frames = list(
        run(Experiment(SENTENCE, slice="value", layers=(0,), client=Client(dropout=0.2), device="cpu", seed=5))
    )
    right = frames[-1].masks_right
    assert right.shape == (10,)  # [CLS] and [SEP] too
    assert right.min() > 0.97
    kept = frames[-1].snapshot.kept.float().mean()
    assert float(kept) == pytest.approx(0.8, abs=0.04)


def test_a_wrong_word_does_not_agree(minilm, leak_of):
    """What the certificate means: dropout explains the coordinates that the true word misses; no other word's."""
    for part, rate in (("value", 0.1), ("query", 0.4), ("key", 0.2)):
        leak = leak_of(minilm, part, (0,), SENTENCE, rate)
        view, truth = readable_view(leak), minilm.encode(SENTENCE)
        for place in (1, 4, 8):
            words = minilm.ordinary[residuals(leak, view, place).topk(SHORTLIST, largest=False).indices]
            shares = agreement(leak, view, words, place).float().mean(1)
            true = words == truth[place]
            assert abs(float(shares[true]) - expected_share(leak, view)) < 0.1
            assert float(shares[true]) >= least_share(leak, view)
            assert float(shares[~true].max()) < least_share(leak, view) - 0.1


def test_a_wrong_sentence_is_not_certified_through_dropout(minilm, leak_of):
    """An attacker told of too low a rate must not believe what it reads: more is missing than that explains."""
    leak = leak_of(minilm, "value", (0,), SENTENCE, 0.3)
    assert last("robust-span", leak).certified
    assert not last("robust-span", replace(leak, dropout=0.05)).certified


def test_rows_need_no_masks(tiny, leak_of):
    """Words and places through dropout, and a proof that fails for any other sentence."""
    leak = leak_of(tiny, "embeddings", (), "the cat and the dog", 0.3)
    shot = last("rows", leak)
    assert tiny.text(shot.ids) == "the cat and the dog"
    assert (shot.certified, shot.certificate.proof) == (True, "rows")
    for wrong in ("the dog and the cat", "the cat and a dog"):
        assert not rebuilt(leak, tiny.encode(wrong)).holds


def test_under_dropout_no_gradient_certifies(tiny, leak_of):
    assert certify(leak_of(tiny, "query", (1,), "one two", 0.1), [tiny.encode("one two")], [1]) is None


def test_the_search_sees_through_dropout(minilm, leak_of):
    """A deep matrix, no mask learned: found, given up in time, and nothing claimed."""
    shot = last("best", leak_of(minilm, "query", (2,), SENTENCE, 0.1))
    assert minilm.text(shot.ids) == SENTENCE
    assert shot.stage.startswith("search")
    assert shot.certificate is None
    assert shot.seconds < LONG  # it ended by itself


def hunt(model, leak, **settings):
    made = Hunt(Grab(start="noise", rows=2, **settings), leak, Budget(), 0, None)
    if made.settings.masks:
        made.learn_masks()
    return made


def test_grab_learns_masks(tiny, leak_of):
    """With masks the distance falls further, and they stay between dropped and kept."""
    leak = leak_of(tiny, "encoder", (), SENTENCE, 0.3)
    learning, without = (hunt(tiny, leak, steps=40, masks=masks) for masks in (True, False))
    for one in (learning, without):
        list(one.descend(""))
    assert learning.distances.min() < 0.8 * without.distances.min()
    values = torch.cat([mask.detach().flatten() for mask in learning.masks[0].values()])
    assert 0 <= float(values.min()) < 0.5 < float(values.max()) <= 1
    assert without.masks == []
    assert without.picture("").kept is None


@pytest.mark.parametrize(("first", "expected"), [("drawn", {0.0, 1.0}), ("mean", {0.75})])
def test_grab_starts_its_masks(tiny, leak_of, first, expected):
    masks = hunt(tiny, leak_of(tiny, "query", (1,), "one two", 0.25), first_masks=first).masks[0]
    assert masks.keys() == tiny.net.sites(4).keys()
    assert {value for mask in masks.values() for value in mask.unique().tolist()} == expected


def test_grabs_search_mends_an_order(tiny, leak_of):
    """The dummies hold the right words in the wrong places: the discrete stage puts them right."""
    leak = leak_of(tiny, "encoder", (), "one two three four")
    one = hunt(tiny, leak)
    one.words.data[:] = tiny.words[tiny.encode("two one four three")]
    one.distances = torch.tensor([1.0, 2.0])
    list(one.rearrange(""))
    assert tiny.text(torch.tensor(one.best)) == "one two three four"
    assert one.best_distance < 1e-4
    assert torch.equal(one.words[1, 1:-1], tiny.words[tiny.encode("one two three four")][1:-1])


def test_masks_of_their_own_tell_the_truth_from_its_neighbours(tiny):
    """Eight clients drop different numbers: with masks that are fitted the truth is nearest more often than without."""

    def nearest(search):
        while True:
            try:
                next(search)
            except StopIteration as over:
                return min(over.value)[1]

    truth = tuple(tiny.encode(SENTENCE).tolist())
    tried, plain, fitted = [truth, *reorderings(truth, 7, torch.Generator().manual_seed(0))], 0, 0
    for seed in range(8):
        secret = Secret.of(tiny, [torch.tensor(truth)], [1], 0.3, seed)
        one = hunt(tiny, share(tiny, secret, select(tiny, "encoder")))
        plain += nearest(one.scored(tried, "")) == truth
        fitted += nearest(one.judged(tried, "")) == truth
    assert plain <= 4
    assert fitted >= 6


def test_grab_starts_from_what_can_be_read(minilm, leak_of):
    shot = last("grab", leak_of(minilm, "layer", (0,), SENTENCE, 0.2))
    assert minilm.text(shot.ids) == SENTENCE
    assert shot.stage.startswith("reading")
    assert shot.certified


def test_grab_leaves_a_reading_of_other_lengths(tiny, leak_of):
    """A batch's search that is stopped half-way may hold a guess too long or too short: noise is a start too."""
    leak = leak_of(tiny, "layer", (1,), "one two three\nthe cat", 0.1)
    odd = snapshot(tiny, Budget(), 1, torch.cat([tiny.encode("one two"), tiny.encode("the cat")]), 0.0, "")
    fit = snapshot(tiny, Budget(), 1, torch.cat([tiny.encode("one two six"), tiny.encode("the cat")]), 0.0, "")
    assert Hunt(Grab(), leak, Budget(), 0, odd).best is None
    assert tiny.text(torch.tensor(Hunt(Grab(), leak, Budget(), 0, fit).best)) == "one two six the cat"


# -- batches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "layers"), [("all", ()), ("layer", (1,))])
def test_certified_takes_a_batch_apart(minilm, name, layers):
    texts, labels = BATCH.splitlines(), (0, 1)
    secret = Secret.of(minilm, [minilm.encode(text) for text in texts], labels)
    shot = last("search", share(minilm, secret, select(minilm, name, layers), label=False))
    assert {minilm.text(ids) for ids in minilm.sentences(shot.ids)} == set(texts)
    assert shot.certified
    told = {minilm.text(ids): label for ids, label in zip(minilm.sentences(shot.ids), shot.labels, strict=True)}
    assert told == dict(zip(texts, labels, strict=True))


def test_a_batch_is_matched_before_scoring(minilm):
    """The attack may find the sentences in any order; the frame shows them in the true one."""
    frames = list(run(Experiment(BATCH, slice="all", client=Client(frozen_embeddings=True), device="cpu")))
    assert frames[-1].text == BATCH
    assert frames[-1].scores.exact
    assert all(len(frame.snapshot.ids) >= 20 for frame in frames)


@pytest.mark.parametrize("labels", [(0, 0, 1), (1, 0, 1), (1, 1, 1)])
def test_labels_are_signs(tiny, labels):
    sentences = [tiny.encode(text) for text in ("one two three", "the cat", "we all went home")]
    leak = share(tiny, Secret.of(tiny, sentences, labels), select(tiny, "layer", (1,)), label=False)
    assert solved_labels(leak, sentences) == labels
    assert certify(leak, sentences, labels).holds
    assert not certify(leak, sentences, [1 - label for label in labels]).holds


def test_descent_takes_a_batch(tiny, leak_of):
    leak = leak_of(tiny, "all", (), "one two three\nthe cat")
    for name in ("tag", "cosine", "grab"):
        shots = [shot for _, shot in zip(range(6), ATTACKS[name].run(leak, Budget(), 0), strict=False)]
        assert [len(ids) for ids in tiny.sentences(shots[-1].ids)] == [5, 4]


def test_a_view_that_tells_sentences_apart(tiny, leak_of):
    """Layer 0's attention reads single tokens: its span is the same however they are dealt out."""
    assert telling_view(leak_of(tiny, "qkv", (0,), "one two\nthree four")) is None
    assert telling_view(leak_of(tiny, "all", (), "one two\nthree four")).piece.name == "0.ffn-out.weight"
    assert telling_view(leak_of(tiny, "query", (1,), "one two\nthree four")).piece.name == "1.query.weight"


@pytest.mark.parametrize("part", ["query", "value"])
def test_one_matrix_of_layer_0_tells_a_batch_apart(minilm, leak_of, part):
    """Its span tells the words, and the gradient itself which of them belong together."""
    batch = "He was arrested by the police.\nWe created a monster."
    shot = last("best", leak_of(minilm, part, (0,), batch))
    assert [minilm.text(ids) for ids in minilm.sentences(shot.ids)] == batch.lower().split("\n")
    assert shot.certified


@pytest.mark.parametrize("batch", ["one two\none two", "one\none", "one two\nthree four\nfive six"])
def test_a_batch_with_little_to_try_comes_to_an_end(tiny, leak_of, batch):
    """Also where the first guess is right, or everything has been tried."""
    shot = last("search", leak_of(tiny, "value", (0,), batch))
    assert sorted(tiny.text(ids) for ids in tiny.sentences(shot.ids)) == sorted(batch.split("\n"))
    assert shot.certified
    assert shot.seconds < LONG


def test_a_batch_of_two_words_has_few_others_to_show(tiny_decoder, leak_of):
    """Its bag is smaller than the number of runners-up."""
    leak = leak_of(tiny_decoder, "all", (), "two two .\ntwo two .")
    shots = [shot for _, shot in zip(range(4), ATTACKS["search"].run(leak, Budget(LONG), 0), strict=False)]
    assert shots[-1].runners_up.shape[0] == len(shots[-1].ids)


def test_nothing_left_to_try_ends_an_assembly(tiny, leak_of):
    """Of wrong words no batch can be made that explains the leak."""
    leak = leak_of(tiny, "value", (0,), "one two\nthree four")
    words = [tiny.encode("five six")[[place]] for place in (1, 2)]
    shots = list(Assembly(leak, Budget(LONG), 0, 0, words).run())
    assert not shots[-1].certified
    assert shots[-1].seconds < LONG


def test_a_batch_of_which_only_layer_0_leaks_needs_its_labels(tiny, leak_of):
    leak = leak_of(tiny, "value", (0,), "one two\nthree four")
    assert ATTACKS["search"].supports(leak) is None
    assert "nothing behind an attention" in ATTACKS["search"].supports(replace(leak, labels=None))


def test_changes_are_combined_unless_they_touch():
    better = [(0, 9, 2, 3), (0, 8, 2, 3), (0, 1, 7, 3)]
    assert combined((0, 1, 2, 3), better) == [(0, 9, 2, 3), (0, 9, 7, 3)]


def test_one_guess_is_one_sentence(tiny):
    """Even one with a [CLS] in its midst, as rows of noise may give: it is weighed, not taken for a batch."""
    secret = Secret.of(tiny, [tiny.encode("one two three")], [1])
    leak = share(tiny, secret, select(tiny, "layer", (1,)), defenses=(Noise(1e-3),))
    ids = tiny.encode("one two three")
    ids[2] = ids[0]
    others, one = tiny.encode("six two four")[:, None], tiny.encode("one")
    assert weighed(leak, snapshot(tiny, Budget(), 1, ids, 0.0, "", runners_up=others, labels=(1,))).nats < torch.inf
    assert weighed(leak, snapshot(tiny, Budget(), 1, one, 0.0, "", labels=(1,))).nats is None  # than nothing else


# -- what cannot be --------------------------------------------------------------------------------------------------


def test_reasons(tiny, leak_of):
    wide = " ".join(["one two three four five"] * 4)
    assert "too many for a width of 48" in ATTACKS["robust-span"].supports(leak_of(tiny, "value", (0,), wide, 0.1))
    assert "use robust-span" in ATTACKS["span"].supports(leak_of(tiny, "value", (0,), "one two", 0.1))
    assert "layer 0" in ATTACKS["robust-span"].supports(leak_of(tiny, "value", (1,), "one two", 0.1))
    pair = leak_of(tiny, "query", (0,), "one two\nthree four")
    assert "one sentence" in ATTACKS["span"].supports(pair)
    assert "sum over" in ATTACKS["rows"].supports(leak_of(tiny, "all", (), "one two\nthree four"))
    untold = leak_of(tiny, "query", (1,), "one two\nthree four", length=False)
    for name in ("search", "grab", "cosine"):
        assert "lengths" in ATTACKS[name].supports(untold)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"client": Client(dropout=0.5)}, "dropout is 0.5: give a rate from 0 to 0.4"),
        ({"sentence": "\n".join(["one two"] * 17)}, "17 sentences: give 1 to 16"),
        ({"labels": (1, 0)}, "2 labels for 1 sentences"),
        ({"slice": "embeddings", "client": Client(frozen_embeddings=True)}, "embeddings are frozen"),
    ],
)
def test_errors_name_the_input(minilm, change, message):
    with pytest.raises(ValueError, match=message):
        set_up(Experiment(**{"sentence": SENTENCE, "device": "cpu", "slice": "all", **change}))


@pytest.mark.parametrize(
    ("name", "frozen", "rate", "sentence", "chosen"),
    [
        ("all", False, 0.1, SENTENCE, "rows"), ("all", True, 0.1, SENTENCE, "robust-span"),
        ("all", True, 0.0, SENTENCE, "span"), ("query", False, 0.1, SENTENCE, "search"),
        ("all", False, 0.0, "one two\nthree four", "search"), ("all", True, 0.1, "one two\nthree four", "grab"),
        ("head", False, 0.1, "one two\nthree four", "grab"),
    ],
)  # fmt: skip
def test_best_chooses_from_the_leak(tiny, leak_of, name, frozen, rate, sentence, chosen):
    assert ATTACKS["best"].choose(leak_of(tiny, name, (1,), sentence, rate, frozen))[0] == chosen


def test_frozen_embeddings_stay_home(tiny, leak_of):
    names = leak_of(tiny, "all", (), "one two", frozen=True).gradient.keys()
    assert not {name for name in names if name.split(".")[0] in ("word", "position", "type", "embedding-norm")}
    assert "0.query.weight" in names


def test_moves_keep_the_ends():
    sentence, generator = (101, 1, 2, 3, 4, 102), torch.Generator().manual_seed(0)
    moved = segments(sentence, 1000, generator)
    assert (101, 3, 4, 1, 2, 102) in moved
    assert all(sorted(s) == sorted(sentence) for s in moved)
    assert shorter(sentence)[0] == (101, 2, 3, 4, 102)
    assert (101, 1, 9, 2, 3, 4, 102) in longer(sentence, [9])
    for changed in (*moved, *shorter(sentence), *longer(sentence, [9])):
        assert (changed[0], changed[-1]) == (101, 102)
