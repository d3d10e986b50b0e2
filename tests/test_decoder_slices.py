"""What decoders share of themselves: every slice, under every distance, tells the truth from its neighbour."""

import pytest
import torch
from torch.nn import functional as F

from demo.attacker.certificate import certify
from demo.attacker.matching import DISTANCES, Matcher, one_hot
from demo.client.secret import Secret
from demo.client.share import share
from demo.victim.slices import SLICES, select, slices_of
from tests.conftest import small

TEXT, OTHER = "the cat sat on the mat", "the dog sat on the mat"
KINDS = {
    "gpt2": ("gpt2", {}),
    "llama, tied": ("llama", {"key_heads": 2}),
    "llama, untied": ("llama", {"key_heads": 2, "tied": False}),
}


@pytest.fixture(scope="module", params=KINDS)
def decoder(request):
    family, own = KINDS[request.param]
    return small(family, **own)


def leak_of(model, name):
    return share(model, Secret.of(model, [model.encode(TEXT)], [0]), select(model, name, (1,)))


@pytest.mark.parametrize("kind", DISTANCES)
@pytest.mark.parametrize("name", [name for name in SLICES if name != "embeddings"])
def test_the_truth_has_no_distance(decoder, name, kind):
    if name not in slices_of(decoder):
        with pytest.raises(ValueError, match="small has no feed-forward gate"):
            select(decoder, name, (1,))
        return
    leak = leak_of(decoder, name)
    near, far = (
        float(Matcher(leak).distance(decoder.words[decoder.encode(text)][None], one_hot(decoder, [0], 1), kind, False))
        for text in (TEXT, OTHER)
    )
    assert near < 1e-3 * far  # of two squares that cancel, l2 leaves some rounding


def test_certificates_tell_the_truth_from_its_neighbours(decoder):
    for name in ("value", "ffn-in", "head", "all"):
        leak = leak_of(decoder, name)
        assert certify(leak, [decoder.encode(TEXT)], [0]).holds
        assert not certify(leak, [decoder.encode(OTHER)], [0]).holds


def test_a_tied_tables_gradient_is_what_it_does_on_both_sides(decoder):
    """As word vectors, and as the output matrix; told once, under one name, by two slices."""
    ids, net = decoder.encode(TEXT), decoder.net.trained
    words = decoder.words[ids][None].clone().requires_grad_(True)
    state = net.inputs(net.embed(words), 3)[0, :-1]
    logits = F.linear(net.norm(state), net.output_table)
    as_words, as_logits = torch.autograd.grad(F.cross_entropy(logits, ids[1:]), [words, logits])
    expected = torch.zeros_like(decoder.words).index_add_(0, ids, as_words[0])
    output = as_logits.T @ net.norm(state).detach()
    heads = leak_of(decoder, "head").gradient
    shared = leak_of(decoder, "embeddings").gradient["word.weight"]
    if net.tied:
        torch.testing.assert_close(shared, expected + output)
        torch.testing.assert_close(heads["word.weight"], shared)
    else:
        torch.testing.assert_close(shared, expected)
        torch.testing.assert_close(heads["output.weight"], output)
