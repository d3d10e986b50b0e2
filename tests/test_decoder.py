"""A decoder that is read at its last token: what leaks of it are sums over the sentence's words, and they are found."""

import pytest
import torch
from torch.nn import functional as F

from demo.attacker.asking import SUMMED, Asking, asking_length
from demo.attacker.attacks.base import Budget
from demo.attacker.attacks.search import Search
from demo.attacker.decoder import DecoderJudge, asking_view
from demo.victim.models import load

SENTENCE = "the dog sat near the red door"
DECODER = 2  # the layer


def by_head(model, matrix):
    return matrix.unflatten(0, (model.net.config.num_attention_heads, -1))


@pytest.mark.parametrize("part", ["value", "key", "query", "attention-output"])
def test_what_leaks_is_what_the_sums_say(tiny_decoder, leak_of, part):
    """Against autograd's own gradient: the truth's vector is the one that the matrix holds."""
    leak = leak_of(tiny_decoder, part, (DECODER,), SENTENCE)
    ids = tiny_decoder.encode(SENTENCE)
    judge = DecoderJudge(leak, asking_view(leak), len(ids), 0, label=1)
    assert float(judge.distance(judge.sites(ids[None]))) < 1e-4
    others = ids[torch.randperm(len(ids) - 2, generator=torch.Generator().manual_seed(0)) + 1]
    shuffled = torch.cat([ids[:1], others, ids[-1:]])
    assert float(judge.distance(judge.sites(shuffled[None]))) > 1e-2
    assert part in SUMMED


def test_a_value_matrix_holds_one_vector_a_head(tiny_decoder, leak_of):
    leak = leak_of(tiny_decoder, "value", (DECODER,), SENTENCE)
    ids = tiny_decoder.encode(SENTENCE)
    asking = Asking(tiny_decoder, len(ids), 1)
    embedded = tiny_decoder.net.embed(tiny_decoder.words[ids][None])
    told = asking.vectors(embedded, "value").unflatten(1, (asking.split[0], -1))[0]
    for head, vector in zip(by_head(tiny_decoder, leak.weight("value", DECODER)), told, strict=True):
        _, sizes, right = torch.linalg.svd(head.double(), full_matrices=False)
        assert float(sizes[1] / sizes[0]) < 1e-5
        assert abs(float(F.cosine_similarity(right[0], vector.double(), dim=0))) > 1 - 1e-6


@pytest.mark.parametrize("part", ["query", "key"])
@pytest.mark.parametrize("sentence", ["a cat", SENTENCE, "Buffalo buffalo Buffalo buffalo buffalo"])
def test_the_length_is_read_where_the_question_leaks(tiny_decoder, leak_of, part, sentence):
    leak = leak_of(tiny_decoder, part, (DECODER,), sentence, length=False)
    assert asking_length(leak) == len(tiny_decoder.encode(sentence))


def test_other_layers_do_not_ask(tiny, tiny_decoder, leak_of):
    assert asking_view(leak_of(tiny, "value", (DECODER,), SENTENCE)) is None
    assert asking_view(leak_of(tiny_decoder, "value", (1,), SENTENCE)) is None
    assert asking_view(leak_of(tiny_decoder, "value", (DECODER,), SENTENCE, dropout=0.1)) is None


@pytest.mark.parametrize("part", ["value", "key", "query", "attention-output", "ffn-in"])
def test_a_sentence_comes_back_from_the_decoder_alone(leak_of, part):
    """The menu's first alternative: its last layer is a decoder."""
    model = load("transformer", device="cpu")
    leak = leak_of(model, part, (model.net.decoder,), SENTENCE)
    *_, last = Search().run(leak, Budget(600), 0)
    assert last.certified
    assert last.ids.tolist() == model.encode(SENTENCE).tolist()
