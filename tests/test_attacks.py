import itertools
import pickle
from dataclasses import replace

import pytest
import torch

from demo.attacker.attacks import ATTACKS, Budget
from demo.attacker.attacks.base import labels_of
from demo.attacker.attacks.descent import Descent, decode
from demo.attacker.attacks.readout import ReadoutSearch
from demo.attacker.attacks.sentence_moves import replacements
from demo.attacker.lens import BATCH
from demo.attacker.readout import ReadoutJudge
from demo.attacker.subspace import searchable
from tests.conftest import LONG

SENTENCE = "the nurse gave the old man his pills"


def quick(attack):
    """The papers' attacks with few starts and orders: their loop is what is tested."""
    if not isinstance(attack, Descent):
        return attack
    every = 2 if attack.reorder_every else 0
    return replace(attack, starts=min(4, attack.starts), orders=min(4, attack.orders), reorder_every=every)


QUICK = {name: quick(attack) for name, attack in ATTACKS.items()}


def last(attack, leak, seconds=LONG, steps=1_000_000, seed=0):
    *_, shot = attack.run(leak, Budget(seconds, steps), seed)
    return shot


@pytest.mark.parametrize("name", ATTACKS)
def test_same_seed_same_run(tiny, leak_of, name):
    """Reproducible, with rising steps, of plain numbers that survive pickling."""
    leak = leak_of(tiny, "all", (), SENTENCE)
    runs = [list(QUICK[name].run(leak, Budget(steps=6), 3)) for _ in range(2)]
    assert len(runs[0]) == len(runs[1])
    for one, same in zip(*runs, strict=True):
        assert torch.equal(one.ids, same.ids)
        assert one.objective == same.objective or name == "rows"
    steps = [shot.step for shot in runs[0]]
    assert steps == sorted(set(steps))
    copy = pickle.loads(pickle.dumps(runs[0][-1]))
    assert torch.equal(copy.embeddings, runs[0][-1].embeddings)
    assert copy.ids.shape == copy.confidence.shape == copy.runners_up.shape[:1] == copy.embeddings.shape[:1]
    assert not copy.embeddings.requires_grad


@pytest.mark.parametrize("name", ["dlg", "tag", "cosine", "search"])
def test_budget_is_kept(tiny, leak_of, name):
    leak = leak_of(tiny, "ffn-in", (2,), SENTENCE)
    shots = list(QUICK[name].run(leak, Budget(steps=3), 0))
    assert shots[-1].step <= 3
    shots = list(QUICK[name].run(leak, Budget(seconds=0.0), 0))
    assert len(shots) <= 2


@pytest.mark.parametrize("name", ["dlg", "tag", "cosine"])
def test_descent_descends(tiny, leak_of, name):
    shots = list(QUICK[name].run(leak_of(tiny, "all", (), SENTENCE), Budget(steps=40), 0))
    assert shots[-1].objective < 0.8 * shots[0].objective


def test_descent_learns_the_label(tiny, leak_of):
    """DLG and TAG need no label: it is optimised with the dummies."""
    leak = leak_of(tiny, "encoder", (), "yes no", label=False)
    assert labels_of(leak) == [0, 1]
    assert last(QUICK["tag"], leak, steps=80).labels == (1,)


def test_label_is_read_off_the_bias(tiny, leak_of):
    assert labels_of(leak_of(tiny, "head", (), SENTENCE, label=False)) == [1]


@pytest.mark.parametrize(
    "sentence", ["hello", SENTENCE, "the the the cat and the cat", "a b c d e f g h i j k l m n o p"]
)
@pytest.mark.parametrize("name", ["embeddings", "all"])
def test_rows_puts_every_word_in_its_place(tiny, leak_of, name, sentence):
    """Repeated words too: their row is a sum, which the position rows take apart."""
    shot = last(ATTACKS["rows"], leak_of(tiny, name, (), sentence, length=False, label=False))
    assert torch.equal(shot.ids, tiny.encode(sentence))
    assert shot.certificate.holds
    assert shot.labels == (1,)


@pytest.mark.parametrize("part", ["query", "key", "value", "attention-output"])
def test_span_is_exact(minilm, leak_of, part):
    for sentence in ("hello", SENTENCE):
        shot = last(ATTACKS["span"], leak_of(minilm, part, (0,), sentence, length=False, label=False))
        assert torch.equal(shot.ids, minilm.encode(sentence))
        assert shot.certificate.holds


def test_span_reads_long_sentences_place_by_place(minilm, leak_of):
    sentence = "when the old clock struck nine , she put the letters back into the drawer and left for good , i think ."
    shots = list(ATTACKS["span"].run(leak_of(minilm, "value", (0,), sentence), Budget(), 0))
    truth = minilm.encode(sentence)
    assert len(shots) == 1 + 23  # one per place, then the certificate
    for place, shot in enumerate(shots, 1):
        assert torch.equal(shot.ids[: place + 1], truth[: place + 1])


@pytest.mark.parametrize(
    ("name", "layers"),
    [("layer", (3,)), ("query", (1,)), ("key", (3,)), ("value", (4,)), ("attention-output", (2,)), ("ffn-in", (0,)),
     ("ffn-out", (1,)), ("qkv", (2, 4))],
)  # fmt: skip
def test_certified_finds_the_sentence(minilm, leak_of, name, layers):
    """The real thing: from one slice of a pretrained model's gradient to the sentence, length and label unknown."""
    shot = last(ATTACKS["search"], leak_of(minilm, name, layers, SENTENCE, length=False, label=False))
    assert minilm.text(shot.ids) == SENTENCE
    assert shot.certificate.holds
    assert shot.labels == (1,)


@pytest.mark.parametrize("guess", ["on the bench there is a cat .", "there is a cat the bench . ."])
def test_one_step_mends_a_phrase_or_a_missing_word(minilm, leak_of, guess):
    """Around one vector: words that are all there but for their order, or for one of them while the others shift."""
    truth, start = (minilm.encode(text) for text in ("there is a cat on the bench .", guess))
    leak = leak_of(minilm, "ffn-in", (5,), "there is a cat on the bench .")
    search = readout_search(minilm, leak, len(truth))
    for _ in itertools.chain(search.keep([tuple(start.tolist())]), search.explore(tuple(start.tolist()))):
        pass
    assert search.nearest[1] == tuple(truth.tolist())


def test_certified_reads_a_single_vector(minilm, leak_of):
    """All that the last layer's feed-forward matrix tells is one vector; a short sentence follows all the same."""
    shot = last(ATTACKS["search"], leak_of(minilm, "ffn-in", (5,), "she lives in paris"))
    assert minilm.text(shot.ids) == "she lives in paris"
    assert shot.certificate.holds


def test_certified_admits_defeat(minilm, leak_of):
    """Stopped early, it shows its best guess and claims nothing."""
    shot = last(ATTACKS["search"], leak_of(minilm, "query", (4,), SENTENCE), steps=4)
    assert minilm.text(shot.ids) != SENTENCE
    assert not shot.certificate.holds


@pytest.mark.parametrize(
    ("name", "layers", "chosen"),
    [("all", (), "rows"), ("embeddings", (), "rows"), ("layer", (0,), "span"), ("key", (0,), "span"),
     ("ffn-in", (0,), "search"), ("query", (1,), "search"), ("head", (), "search")],
)  # fmt: skip
def test_best_chooses_from_the_leak(tiny, leak_of, name, layers, chosen):
    leak = leak_of(tiny, name, layers, "one two three")
    assert ATTACKS["best"].choose(leak)[0] == chosen
    first = next(iter(ATTACKS["best"].run(leak, Budget(), 0)))
    assert first.stage.startswith(chosen)


def test_impossible_pairs_have_a_reason(tiny, minilm, leak_of):
    assert "not exposed" in ATTACKS["rows"].supports(leak_of(tiny, "query", (0,)))
    assert "layer 0" in ATTACKS["span"].supports(leak_of(tiny, "query", (1,)))
    assert "layer 0" in ATTACKS["span"].supports(leak_of(tiny, "ffn-in", (0,)))
    untold = leak_of(minilm, "ffn-in", (5,), SENTENCE, length=False)
    for name in ("search", "cosine", "best"):
        assert "length is unknown" in ATTACKS[name].supports(untold)
    wide = "one two three four five six seven eight nine ten " * 5
    assert "span the whole width" in ATTACKS["span"].supports(leak_of(tiny, "query", (0,), wide))


def test_decoding_takes_the_nearest_ordinary_word(tiny):
    ids = tiny.encode("red green blue")
    words = tiny.words[ids] * 3 + 0.001
    found, sure, others = decode(tiny, words, [len(words)])
    assert torch.equal(found, ids)
    assert (sure > 0.99).all()
    assert others.shape == (5, 3)


def test_reorderings_keep_the_words(tiny, leak_of):
    from demo.attacker.attacks.best_first import BestFirst, Effort
    from demo.attacker.subspace import views

    leak = leak_of(tiny, "query", (1,), "one two three four")
    search = BestFirst(Effort(), tiny, views(leak)[0], [6], 0)
    sentence = (101, 1, 2, 3, 4, 102)
    for moved in search.reorderings(sentence):
        assert sorted(moved) == sorted(sentence)
        assert (moved[0], moved[-1]) == (101, 102)


def readout_search(model, leak, length):
    return ReadoutSearch(leak, ReadoutJudge(model, next(searchable(leak)), length, 0), length, 0)


def test_readout_search_finds_a_short_sentence(tiny, leak_of):
    """From one vector of the last layer, on a small random network."""
    shot = last(ATTACKS["search"], leak_of(tiny, "ffn-in", (2,), "we sold it"))
    assert shot.certificate.holds
    assert tiny.text(shot.ids) == "we sold it"


def test_a_search_without_progress_looks_among_more_words(tiny, leak_of):
    """It starts from the truth here, which nothing betters."""
    search = readout_search(tiny, leak_of(tiny, "ffn-in", (2,), "we sold it"), 5)
    search.best, propose, asked = tuple(tiny.encode("we sold it").tolist()), search.judge.propose, []

    def noted(sentence, always, sifted):
        asked.append(sifted)
        return propose(sentence, always, sifted)

    search.judge.propose = noted
    progress = search.search()
    while len(asked) < 3:
        next(progress)
    assert asked == [search.SIFTED, 2 * search.SIFTED, 4 * search.SIFTED]


def test_combinations_mend_what_no_single_change_does(tiny, leak_of):
    """Two words that only together are right: their changes are put together, and never two to one place."""
    truth = tuple(tiny.encode("we sold the old house").tolist())
    search = readout_search(tiny, leak_of(tiny, "ffn-in", (2,), "we sold the old house"), len(truth))
    guess = (*truth[:2], *tiny.encode("cat dog")[1:-1].tolist(), *truth[4:])
    halves = [(*guess[:2], truth[2], *guess[3:]), (*guess[:3], truth[3], *guess[4:])]
    others = [(*guess[:place], word, *guess[place + 1 :]) for place in (1, 2, 4) for word in range(2000, 2010)]
    list(search.keep([guess, *halves, *others]))
    found = search.effects(guess, [*halves, *others]).together(torch.tensor(guess), search.seen(guess))
    assert truth in [sentence for sentence in found if sentence not in search.kept][:10]
    for one in found:
        assert all(word in {s[place] for s in [guess, *halves, *others]} for place, word in enumerate(one))


def test_readout_search_can_be_watched(tiny, leak_of):
    """A snapshot after every few sentences scored, and the guess shown is the nearest in the metric of the moment."""
    search, scored = readout_search(tiny, leak_of(tiny, "ffn-in", (2,), SENTENCE), 10), [0]
    sites = search.judge.sites
    search.judge.sites = lambda ids: (scored.append(len(ids)), sites(ids))[1]
    shots = list(search.run(Budget(steps=60), 0))
    assert max(scored) <= BATCH
    assert len({shot.stage for shot in shots}) > 3
    assert shots[-1].objective < shots[0].objective


def test_a_stuck_guess_is_mended_by_a_word_put_in_elsewhere():
    sentence = (101, 1, 2, 3, 4, 102)
    found = replacements(sentence, [9])
    assert (101, 1, 3, 9, 4, 102) in found  # 2 taken out, 9 put in
    assert all(len(s) == 6 and s[0] == 101 and s[-1] == 102 and s.count(9) == 1 for s in found)
    assert len(set(found)) == 4 * 3
