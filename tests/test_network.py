"""The network in train mode, beside transformers' own."""

import pytest
import torch
from torch.nn import functional as F
from transformers import BertForSequenceClassification

from demo.client.secret import Secret, drawn_masks
from demo.victim.gradients import gradient_of
from demo.victim.models import pretrained_folder
from demo.victim.rough import BFLOAT16, rough
from demo.victim.slices import select


@pytest.fixture(scope="module")
def theirs(minilm):
    model = BertForSequenceClassification.from_pretrained(pretrained_folder("minilm"), attn_implementation="eager")
    model.classifier.load_state_dict(minilm.net.classifier.state_dict())
    return model


def test_masks_do_what_train_mode_does(minilm, theirs, monkeypatch):
    """transformers in train mode, its dropout replaced by our masks in the order in which it asks for them."""
    ids = minilm.encode("the cat sat on the mat")
    masks = drawn_masks(minilm.net, len(ids), 0.2, torch.Generator().manual_seed(0), minilm.device)
    waiting = list(masks.values())
    monkeypatch.setattr(F, "dropout", lambda x, *args, **kwargs: x * waiting.pop(0) if x.dim() > 1 else x)
    with torch.no_grad():
        expected = theirs.train()(input_ids=ids[None]).logits
        ours = minilm.net(minilm.words[ids][None], masks)
    assert not waiting
    torch.testing.assert_close(ours, expected)
    assert (ours - minilm.net(minilm.words[ids][None])).abs().max() > 1e-3


def test_masks_are_dropouts(minilm):
    """Each number is dropped with the rate's chance, and the mean stays; one seed, one draw."""
    one, same, other = (Secret.of(minilm, [minilm.encode("a b c d e")], [1], 0.3, seed).masks[0] for seed in (1, 1, 2))
    for site, mask in one.items():
        assert all(value == 0 or value == pytest.approx(1 / 0.7) for value in mask.unique().tolist())
        assert torch.equal(mask, same[site])
    drawn = torch.cat([mask.flatten() for mask in one.values()])
    assert float((drawn == 0).float().mean()) == pytest.approx(0.3, abs=0.01)
    assert float(drawn.mean()) == pytest.approx(1.0, abs=0.02)
    assert not torch.equal(one["embedding"], other["embedding"])


def test_eval_mode_has_no_masks(tiny):
    assert Secret.of(tiny, [tiny.encode("one two")], [1]).masks == ()


def test_a_batch_is_a_padded_batch(minilm, theirs):
    """Our sentences one by one give the gradient that transformers gives of them padded, masked and averaged."""
    texts, labels = ["the cat sat on the mat", "she left"], [1, 0]
    pieces = select(minilm, "query", (0, 3))
    ours = gradient_of(minilm, [minilm.encode(text) for text in texts], labels, pieces)
    theirs.eval().zero_grad()
    theirs(**minilm.tokenizer(texts, padding=True, return_tensors="pt"), labels=torch.tensor(labels)).loss.backward()
    for layer in (0, 3):
        expected = theirs.bert.encoder.layer[layer].attention.self.query.weight.grad
        torch.testing.assert_close(ours[f"{layer}.query.weight"], expected, rtol=1e-3, atol=1e-8)
    theirs.zero_grad()


@pytest.mark.parametrize("name", BFLOAT16)
def test_rough_is_about_the_same_network(minilm, monkeypatch, name):
    """What is left of the digits must tell guesses apart: here by one word, the least that guesses differ by."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {name: True})
    twin = rough(minilm.net)
    right, wrong = (minilm.net.embed(minilm.words[minilm.encode(s)][None]) for s in ("the cat sat", "the cat sits"))
    exact, other, about = minilm.net.inputs(right, 5), minilm.net.inputs(wrong, 5), twin.inputs(right, 5)
    assert exact.dtype == about.dtype
    assert 0 < (about - exact).norm() < 0.01 * exact.norm()
    assert (about - exact).norm() < 0.05 * (other - exact).norm()


def test_rough_leaves_the_network_as_it_is(minilm, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {BFLOAT16[0]: True})
    twin, words = rough(minilm.net), minilm.words[minilm.encode("the cat sat")][None]
    assert twin is not minilm.net
    assert twin.words is minilm.net.words  # no second copy of what is large and not made rough
    assert {parameter.dtype for parameter in minilm.net.parameters()} == {torch.float32}
    assert torch.equal(minilm.net(words), minilm.net.trained(words))


def test_nothing_is_rough_where_that_would_not_be_quicker(tiny, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, BFLOAT16[0]: False})
    assert rough(tiny.net) is tiny.net


def test_states_are_what_each_layer_reads(tiny):
    embedded = tiny.net.embed(tiny.words[tiny.encode("the cat sat")])[None]
    for layers in range(4):
        states = tiny.net.states(embedded, layers)
        assert len(states) == layers
        assert all(torch.equal(state, tiny.net.inputs(embedded, layer)) for layer, state in enumerate(states))
