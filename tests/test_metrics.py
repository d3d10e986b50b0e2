import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rouge_score import rouge_scorer

from demo.runs.metrics import mask_accuracy, matched, score, score_each, together


def scores_of(model, truth, guess):
    return score(model, model.encode(truth), model.encode(guess))


def test_by_hand(tiny):
    scores = scores_of(tiny, "the cat sat on the mat", "the mat sat by the the")
    assert scores.recover_rate == pytest.approx(4 / 6)  # the, the, sat, mat
    assert scores.position_accuracy == pytest.approx(3 / 6)  # the, sat, the
    assert not scores.exact


def test_rouge_is_the_librarys(tiny):
    truth, guess = "the cat sat on the mat", "a cat on the mat sat"
    oracle = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"]).score(truth, guess)
    scores = scores_of(tiny, truth, guess)
    assert scores.rouge1 == pytest.approx(oracle["rouge1"].fmeasure)
    assert scores.rouge2 == pytest.approx(oracle["rouge2"].fmeasure)
    assert scores.rougeL == pytest.approx(oracle["rougeL"].fmeasure)


def test_specials_do_not_count(tiny):
    scores = scores_of(tiny, "one two three", "four five six")
    assert (scores.recover_rate, scores.position_accuracy, scores.rouge1) == (0, 0, 0)
    assert scores.rouge1_specials == pytest.approx(2 / 5)  # what the papers after LAMP would report


@pytest.mark.parametrize("sentence", ["hello", "?!", "日本", "the cat sat."])
def test_exact_is_full_marks(tiny, sentence):
    scores = scores_of(tiny, sentence, sentence)
    assert scores.exact
    assert {scores.recover_rate, scores.position_accuracy, scores.rouge1, scores.rouge2, scores.rougeL} == {1.0}


def test_another_length(tiny):
    scores = scores_of(tiny, "one two three four", "one two")
    assert (scores.recover_rate, scores.position_accuracy) == (0.5, 0.5)


def test_a_batch_is_matched_and_averaged(tiny):
    truth = [tiny.encode(text) for text in ("the cat sat", "one two three", "we left")]
    guess = [tiny.encode(text) for text in ("we went", "the cat sat", "three two one")]
    order = matched(tiny, truth, guess)
    assert order == [1, 2, 0]
    scores = together(tiny, score_each(tiny, truth, [guess[n] for n in order]), truth)
    assert scores.position_accuracy == pytest.approx((3 + 1 + 1) / 8)
    assert scores.recover_rate == pytest.approx((3 + 3 + 1) / 8)
    assert not scores.exact


@given(st.lists(st.tuples(*[st.lists(st.sampled_from(range(1996, 2006)), min_size=1, max_size=9)] * 2), min_size=1))
def test_what_is_in_place_is_found(tiny, pairs):
    """14 of 17 in place never stands beside 75 % found."""
    first, last = tiny.ends
    truth, guess = ([torch.tensor([*first, *words, *last]) for words in side] for side in zip(*pairs, strict=True))
    scores = together(tiny, score_each(tiny, truth, guess), truth)
    assert scores.recover_rate >= scores.position_accuracy - 1e-9


def test_mask_accuracy_by_hand():
    kept = torch.tensor([[True, True, False, False], [True, False, True, True]])
    told = torch.tensor([[True, True, False, True], [True, False, True, True]])
    assert mask_accuracy(kept, told).tolist() == [0.75, 1.0]
