import pytest
import torch
from torch.nn import functional as F

from demo.attacker.judges import SpanJudge
from demo.attacker.lens import embedded_at, random_sentences
from demo.attacker.readout import ReadoutJudge, before_gelu
from demo.attacker.subspace import views
from demo.attacker.vocabulary import Streams, Substitution

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
    exact = minilm.net.inputs(embedded, 6)[:, 0]
    torch.testing.assert_close(judge._site(minilm.net.inputs(embedded, judge.mixer)), exact, atol=1e-5, rtol=0)
    roughly = F.normalize(exact, dim=1)  # where the processor has bfloat16
    torch.testing.assert_close(judge.sites(ids), roughly, atol=0.02 * float(roughly.abs().max()), rtol=0)


@pytest.mark.parametrize("part", ["query", "attention-output", "ffn-in", "ffn-out"])
def test_readout_takes_neither_faint_nor_opposite_vectors_for_near(minilm, leak_of, part):
    """Beside the leaked direction alone, a vector without length would be as near as the truth."""
    truth = minilm.encode(SENTENCE)
    judge = ReadoutJudge(minilm, views(leak_of(minilm, part, (5,), SENTENCE))[0], len(truth), seed=0)
    site, others = judge.sites(truth[None]), judge.sites(random_sentences(minilm, 50, len(truth), seed=8))
    far = judge.distance(others)
    assert judge.distance(site) < 0.01 * far.min()  # so the way along it was told right, too
    torch.testing.assert_close(judge.distance(0.1 * others), far, rtol=1e-3, atol=0)
    assert judge.distance(-site) > far.median()


def neighbourhood(model, judge, guess, rows=40):
    """How random words in each place of a guess move the vector."""
    drawn = random_sentences(model, rows, len(guess), seed=5)
    tried = guess.repeat(rows * (len(guess) - 2), 1)
    for i, (row, place) in enumerate((row, place) for row in drawn for place in range(1, len(guess) - 1)):
        tried[i, place] = row[place]
    return judge.sites(tried) - judge.sites(guess[None])


@pytest.mark.parametrize("part", ["ffn-in", "ffn-out"])
def test_readout_proposes_the_missing_words(minilm, leak_of, part):
    """Two words wrong: around the guess both true ones are among the first of the whole vocabulary."""
    truth = minilm.encode(SENTENCE)
    judge = ReadoutJudge(minilm, views(leak_of(minilm, part, (5,), SENTENCE))[0], len(truth), seed=0)
    guess = truth.clone()
    guess[[2, 6]] = minilm.encode("nurse eat")[1:-1]
    judge.focus(neighbourhood(minilm, judge, guess))
    proposals = list(judge.propose(guess, minilm.encode("the")[1:-1], 120))
    assert len(proposals) == len(truth) - 2
    for place in (2, 6):
        words, ranks = proposals[place - 1]
        best = words[ranks.argsort()[:18]].tolist()
        assert truth[place] in best
        assert len(set(best)) == 18
        assert words[-1] == minilm.encode("the")[1]


def test_focus_tells_a_right_word_among_wrong_ones(minilm, leak_of):
    """With three other words wrong, the true word stands higher by the metric fitted around the guess."""
    truth = minilm.encode(SENTENCE)
    judge = ReadoutJudge(minilm, views(leak_of(minilm, "ffn-in", (5,), SENTENCE))[0], len(truth), seed=0)
    guess = truth.clone()
    guess[[1, 3, 6]] = minilm.encode("some music river")[1:-1]
    tried = guess.repeat(200, 1)
    tried[:, 2] = random_sentences(minilm, 200, 5, seed=7)[:, 2]
    tried[0] = guess  # holds the true word
    before = int((judge.score(tried) < judge.score(guess[None])).sum())
    judge.focus(neighbourhood(minilm, judge, guess))
    after = int((judge.score(tried) < judge.score(guess[None])).sum())
    assert after < before


def test_what_ffn_out_reads_tells_what_ffn_in_reads(minilm, leak_of):
    """So the wide vector is judged in the narrow space, and by the very vector that the network has there."""
    judge = ReadoutJudge(minilm, views(leak_of(minilm, "ffn-out", (5,), SENTENCE))[0], 9, seed=0)
    embedded = minilm.net.embed(minilm.words[minilm.encode(SENTENCE)])[None]
    torch.testing.assert_close(
        judge.target, F.normalize(minilm.net.attended(embedded, 5)[0, 0], dim=0), atol=1e-5, rtol=0
    )
    assert judge.part == "ffn-in"
    upside_down = -judge.target.repeat(4)
    assert before_gelu(minilm.net.feed_forward(5).widen, upside_down, judge.target[None]) is None


def test_the_sieve_is_the_estimate_in_linear_form(minilm, leak_of):
    """Sifting all words by the sketch sorts them nearly as running the last attention on each does."""
    truth = minilm.encode(SENTENCE)
    judge = ReadoutJudge(minilm, views(leak_of(minilm, "ffn-in", (5,), SENTENCE))[0], len(truth), seed=0)
    embedded, before = minilm.net.embed(minilm.words[truth]), judge._before(truth[None])[0]
    attention = minilm.net.attention(5)
    swap = Substitution(attention, before, before[0], lambda *x: judge.whitened(judge._after(*x)), 0)
    added = torch.randn(embedded.shape, generator=torch.Generator().manual_seed(0))
    for place, (alone, pulled) in enumerate(judge.alphabet.sift(swap, embedded, added), start=1):
        words = torch.arange(0, len(minilm.ordinary), 50)
        step = embedded_at(minilm, minilm.ordinary[words], [place])[0]
        states = before[place] + (step - embedded[place]) @ judge.lens.matrix
        pair = torch.stack([alone[words], swap.distances(place, states)])
        assert torch.corrcoef(pair)[0, 1] > 0.8
        differences = pulled[words] - step @ added[place]  # a constant: the sieve leaves out what all words share
        assert differences.std() < 1e-3


def test_a_streams_first_layer_is_exact(minilm, monkeypatch):
    """There the other tokens have not yet heard of the new word."""
    monkeypatch.setattr("demo.attacker.vocabulary.rough", lambda net: net)
    truth, words = minilm.encode(SENTENCE), minilm.encode("dog runs away")[1:-1]
    changed = truth.repeat(len(words), 1)
    changed[:, 4] = words
    streams = Streams(minilm.net, minilm.net.embed(minilm.words[truth]), 1)
    exact = minilm.net.inputs(minilm.net.embed(minilm.words[changed]), 1)[:, 4]
    torch.testing.assert_close(streams.carried(4, embedded_at(minilm, words, [4])[0]), exact, atol=1e-5, rtol=0)


def test_a_stream_of_the_guess_itself_is_exact_at_any_depth(minilm, monkeypatch):
    monkeypatch.setattr("demo.attacker.vocabulary.rough", lambda net: net)
    embedded = minilm.net.embed(minilm.words[minilm.encode(SENTENCE)])
    exact = minilm.net.inputs(embedded[None], 5)[0, 3]
    found = Streams(minilm.net, embedded, 5).carried(3, embedded[3:4])[0]
    torch.testing.assert_close(found, exact, atol=1e-4, rtol=0)


def test_streams_tell_most_of_what_a_word_does_and_the_lens_little(minilm, leak_of):
    truth = minilm.encode(SENTENCE)
    judge = ReadoutJudge(minilm, views(leak_of(minilm, "ffn-in", (5,), SENTENCE))[0], len(truth), seed=0)
    judge.focus(neighbourhood(minilm, judge, truth))
    words, place = random_sentences(minilm, 100, 3, seed=7)[:, 1], 4
    changed = truth.repeat(len(words), 1)
    changed[:, place] = words
    embedded, before = minilm.net.embed(minilm.words[truth]), judge._before(truth[None])[0]
    placed = embedded_at(minilm, words, [place])[0]
    carried = Streams(minilm.net, embedded, judge.mixer).carried(place, placed)
    seen = before[place] + (placed - embedded[place]) @ judge.lens.matrix

    def effects(sites):
        return judge.whitened(sites) - judge.whitened(judge.sites(truth[None]))

    def told(states):
        """The median share of an effect's energy that is explained if just this token has another state."""
        around = before.repeat(len(words), 1, 1)
        around[:, place] = states
        exact, about = effects(judge.sites(changed)), effects(judge._site(around))
        return float((1 - (exact - about).square().sum(1) / exact.square().sum(1)).median())

    assert told(carried) > 0.5
    assert told(seen) < 0.3


def test_a_wide_matrix_is_ranked_by_some_of_its_coordinates(minilm, leak_of):
    """The subspace stays one when thinned: the true words lie in it, others do not."""
    leak = leak_of(minilm, "ffn-out", (1,), "the cat sat on the mat")
    judge = SpanJudge(minilm, views(leak)[0], 8, 0)
    truth = minilm.encode("the cat sat on the mat")
    features, (basis,) = judge.glance(judge._stream(truth[None])[0])[0], judge.glance_bases
    assert features.shape[1] < views(leak)[0].bases[0].shape[0]
    inside = (features @ basis).square().sum(1) / features.square().sum(1)
    assert (inside > 0.999).all()
    other = judge.glance(judge._stream(minilm.encode("some dogs run through old parks")[None])[0])[0]
    assert ((other @ basis).square().sum(1) / other.square().sum(1))[1:-1].max() < 0.95
