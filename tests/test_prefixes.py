"""The parts of a search on decoders, one by one."""

import pytest
import torch

from demo.attacker.certificate import certify
from demo.attacker.last_word import LastWord, last_words_of_batch
from demo.attacker.prefix_views import LIES_IN, bag_of_words, prefix_views, telling_of_words
from demo.attacker.prefixes import Look, PrefixJudge
from demo.attacker.proposals import OPENING, Alone, Prior, Proposals
from demo.attacker.turned_order import TurnedOrder
from tests.drawn import BATCH, KINDS, SENTENCE, drawn, leak_of

AGAIN = "the cat sat on the mat"


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    return drawn(request.param)


@pytest.fixture(scope="module")
def llama():
    return drawn("llama, tied")


@pytest.mark.parametrize(("name", "layer"), [("value", 1), ("attention-output", 0), ("ffn-out", 2)])
def test_a_right_word_lies_in_the_span_and_a_wrong_prefix_sticks_out(model, name, layer):
    [view] = prefix_views(leak := leak_of(model, name, (layer,)))
    judge, ids = PrefixJudge(leak, view), model.encode(SENTENCE).tolist()
    assert view.rank == len(ids) - 1
    path = judge.start()
    for place, word in enumerate(ids[:-1]):
        look = judge.look(path, model.ordinary)
        assert look.passing == (word,)
        said_twice = ids[0] if place == 1 else word  # a first word again, which places that turn do not tell apart
        others = (look.ids != word) & (look.ids != said_twice)
        assert float(look.outside[others].min()) > 100 * LIES_IN
        wrong = judge.extended(path, ids[place - 1])
        assert not place or judge.look(wrong, model.ordinary).passing == ()
        path = judge.extended(path, word)


@pytest.mark.parametrize("part", ["key", "query"])
@pytest.mark.parametrize("text", [SENTENCE, AGAIN, "the cat sat sat on the mat"])
@pytest.mark.parametrize("kind", ["llama, tied", "llama, untied"])
def test_turned_queries_and_keys_tell_the_order(kind, part, text):
    model = drawn(kind)
    leak = leak_of(model, part, (0,), text, length=False)
    orders = TurnedOrder(leak, telling_of_words(leak), bag_of_words(leak)).orders()
    assert next(orders) == tuple(model.encode(text).tolist()[:-1])


@pytest.mark.parametrize(
    ("name", "layers"),
    [("all", ()), ("value", (0,)), ("query", (1,)), ("ffn-out", (2,)), ("head", ()), ("embeddings", ())],
)
def test_the_last_word_is_read_exactly(model, name, layers):
    """Whichever it is, one of the sentence too; whatever the model thought; not where another word is wrong."""
    for text in (SENTENCE, AGAIN, "a cat sat on the cat"):
        leak = leak_of(model, name, layers, text)
        *ids, last = model.encode(text).tolist()
        reader = LastWord(leak, next(piece for piece in leak.pieces if piece.kind == "weight"))
        expected = torch.full((len(model.words),), -torch.inf)
        expected[model.ordinary] = torch.randn(len(model.ordinary), generator=torch.Generator().manual_seed(0))
        assert list(dict.fromkeys(reader.explaining(tuple(ids), expected))) == [last]
    assert list(reader.explaining((*ids[:1], ids[0], *ids[2:]), expected)) == []


def test_the_last_words_of_a_batch_are_read_exactly(model):
    leak = leak_of(model, "all", (), BATCH)
    sentences = [model.encode(line).tolist() for line in BATCH.splitlines()]
    chances = [Prior(leak).chances(tuple(ids[:-1])) for ids in sentences]
    assert last_words_of_batch(leak, [tuple(ids[:-1]) for ids in sentences], chances) == [ids[-1] for ids in sentences]


@pytest.mark.parametrize(("name", "layers"), [("all", ()), ("key", (0,)), ("value", (1,)), ("ffn-out", (2,))])
def test_another_last_word_is_not_certified(model, name, layers):
    leak, ids = leak_of(model, name, layers), model.encode(SENTENCE)
    assert certify(leak, [ids], [0]).holds
    for word in model.ordinary[::150].tolist():
        assert word == int(ids[-1]) or not certify(leak, [torch.cat([ids[:-1], torch.tensor([word])])], [0]).holds


def test_proposals_are_every_word_once(llama):
    leak = leak_of(llama, "value", (1,))
    prior, judge = Prior(leak), PrefixJudge(leak, prefix_views(leak)[0])
    proposals = Proposals(Alone(prior, 1), judge.view.basis, prior.chances(()), None, 0)
    tried = []
    while len(ids := proposals.next()):
        tried += ids.tolist()
        vectors = judge.entering(judge.start(), ids, llama.net)
        proposals.learn(Look(ids, vectors, torch.zeros(len(ids)), ()))
    assert sorted(tried) == llama.ordinary.tolist()
    assert not len(proposals.next())


def test_a_known_bag_comes_first(llama):
    leak = leak_of(llama, "all", ())
    prior, bag = Prior(leak), bag_of_words(leak)
    proposals = Proposals(Alone(prior, 0), torch.zeros(96, 0), prior.chances(()), bag, 0)
    assert sorted(proposals.next().tolist()) == sorted(bag.tolist()) == sorted(llama.encode(SENTENCE).tolist()[:-1])


def test_chances_are_the_models_own(model):
    """After an opening; whether a prefix was seen before or not. Drawn networks of a few numbers are not made rough."""
    leak = leak_of(model, "value", (1,))
    prior, ids = Prior(leak), model.encode(SENTENCE)
    opening = model.tokenizer(OPENING, add_special_tokens=False).input_ids
    for n in (0, 1, 2, 5, 3):
        words = torch.tensor([*opening, *ids[:n].tolist()])
        net = model.net
        with torch.no_grad():
            state = net.inputs(net.embed(model.words[words][None]), len(net.layers))[:, -1]
            expected = net.logits(state)[0, model.ordinary].log_softmax(0)
        prior.rough = net
        torch.testing.assert_close(
            prior.chances(tuple(ids[:n].tolist()))[model.ordinary], expected, rtol=1e-3, atol=1e-3
        )
