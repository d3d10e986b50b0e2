import pytest
import torch

from demo.judges import ReadoutJudge, SpanJudge
from demo.lens import random_sentences
from demo.subspace import views

SENTENCE = "the doctor told her to sleep more"
PARTS = ["query", "key", "value", "attention-output", "ffn-in", "ffn-out"]
LAST = ["query", "attention-output", "ffn-in", "ffn-out"]


def judge_of(model, leak, length):
    view = views(leak)[0]
    return (ReadoutJudge if view.read_row_only else SpanJudge)(model, view, length, seed=0)


@pytest.mark.parametrize(("part", "layer"), [(p, 2) for p in PARTS] + [(p, 5) for p in LAST] + [("head", 0)])
def test_the_truth_scores_best(minilm, leak_of, part, layer):
    """Against every exchange of two tokens, a repeated word and a substituted one."""
    truth = minilm.encode(SENTENCE)
    judge = judge_of(minilm, leak_of(minilm, part, (layer,), SENTENCE), len(truth))
    rivals = [truth.clone() for _ in range(8)]
    for place in range(1, 7):
        rivals[place - 1][[place, place + 1]] = truth[[place + 1, place]]
    rivals[6][4] = truth[3]
    rivals[7][4] = minilm.encode("his")[1]
    scores = judge.score(torch.stack([truth, *rivals]))
    assert scores.argmin() == 0
    assert scores[0] < 0.5 * scores[1:].min()


@pytest.mark.parametrize("part", PARTS)
def test_the_lens_finds_the_missing_word(minilm, leak_of, part):
    """With the rest of the sentence right, the true word is among the first few of the whole vocabulary."""
    truth = minilm.encode(SENTENCE)
    judge = judge_of(minilm, leak_of(minilm, part, (2,), SENTENCE), len(truth))
    for place in (2, 6):
        guess = truth.clone()
        guess[place] = minilm.tokenizer.mask_token_id
        ranks = judge.rank(guess, minilm.ordinary)[place]
        true = (minilm.ordinary == truth[place]).nonzero()[0, 0]
        assert int((ranks < ranks[true]).sum()) < 5


def test_readout_score_equals_the_networks_own_vector(minilm, leak_of):
    """The judge's own last attention gives the vector that the network gives."""
    leak = leak_of(minilm, "head", (), SENTENCE)
    judge = ReadoutJudge(minilm, views(leak)[0], 9, seed=0)
    ids = random_sentences(minilm, 3, 9, seed=4)
    embedded = minilm.net.embed(minilm.words[ids])
    torch.testing.assert_close(judge._site(judge._before(ids)), minilm.net.inputs(embedded, 6)[:, 0], atol=1e-5, rtol=0)
