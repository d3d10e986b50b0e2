import pytest
import torch

from demo.victim.models import MODELS, Model, Weights, drafted, outline
from demo.victim.slices import SLICES, all_pieces, count, groups_of, holds, matrices_of, select, share, slices_of
from tests.conftest import UNGATED


@pytest.fixture(scope="module")
def bert_base(tiny) -> Model:
    with torch.device("meta"):
        net = drafted(MODELS["bert-base"], 30522)
    return Model("bert-base", "", net, tiny.tokenizer, torch.device("meta"), tiny.ordinary, tiny.ends)


def test_the_papers_headline(bert_base):
    """Li et al.: one attention matrix of BERT-base is 0.54 % of its parameters."""
    pieces = select(bert_base, "query", (4,))
    assert count(pieces) == 589_824
    assert round(100 * share(bert_base, pieces), 2) == 0.54


def test_minilm_query(minilm):
    pieces = select(minilm, "query", (2,))
    assert count(pieces) == 147_456
    assert round(100 * share(minilm, pieces), 2) == 0.65


def test_every_parameter_has_exactly_one_name(tiny, tiny_decoder):
    for model in (tiny, tiny_decoder):
        pieces = select(model, "all")
        assert len({piece.name for piece in pieces}) == len(pieces) == len(list(model.net.parameters()))
        assert count(pieces) == sum(p.numel() for p in model.net.parameters())


def test_ffn_out_is_not_the_attention_output(tiny):
    """'output.dense' ends both modules' names."""
    (ffn,), (attention,) = select(tiny, "ffn-out", (1,)), select(tiny, "attention-output", (1,))
    assert (ffn.name, ffn.size) == ("1.ffn-out.weight", 96 * 48)
    assert (attention.name, attention.size) == ("1.attention-output.weight", 48 * 48)


@pytest.mark.parametrize("name", UNGATED)
def test_every_slice_is_what_it_says(tiny, name):
    pieces = select(tiny, name, (0, 2))
    assert pieces
    assert all({piece.part, *groups_of(tiny, piece)} & set(SLICES[name].parts) for piece in pieces)
    if SLICES[name].of_layer:
        assert {piece.layer for piece in pieces} == {0, 2}
        assert count(pieces) == count(select(tiny, name, (0,))) + count(select(tiny, name, (2,)))
    if SLICES[name].weights_only:
        assert {piece.kind for piece in pieces} == {"weight"}


def test_encoder_is_the_sum_of_its_layers(tiny):
    assert count(select(tiny, "encoder")) == count(select(tiny, "layer", (0, 1, 2)))
    outside = sum(piece.size for piece in all_pieces(tiny) if piece.layer is None)
    assert count(select(tiny, "encoder")) + outside == count(select(tiny, "all"))


def test_clear_errors(tiny):
    with pytest.raises(ValueError, match="unknown slice 'ffn'"):
        select(tiny, "ffn")
    with pytest.raises(ValueError, match="layer 3 does not exist: small has layers 0 to 2"):
        select(tiny, "query", (0, 3))
    with pytest.raises(ValueError, match="'query' needs a layer"):
        select(tiny, "query")


def test_a_models_slices_are_those_that_it_has(tiny, toy):
    assert tuple(slices_of(tiny)) == UNGATED
    assert list(matrices_of(tiny)) == ["query", "key", "value", "attention-output", "ffn-in", "ffn-out"]
    assert "head" in slices_of(toy)


FFN = ("ffn-gate", "ffn-in", "ffn-out")


def test_a_decoders_slices_are_called_as_its_parts_are():
    """A tied table of words is in the head as well as before the layers, and counted once."""
    smollm2, tiny = outline("smollm2", Weights()), outline("llama-tiny")
    words = 49152 * 576
    assert count(select(smollm2, "head")) == words + 576
    assert count(select(smollm2, "embeddings")) == words
    assert count(select(smollm2, "all")) == count(select(smollm2, "encoder")) + words + 576
    known = slices_of(smollm2)
    assert list(matrices_of(smollm2)) == ["query", "key", "value", "attention-output", *FFN]
    assert known["head"].title == "final norm + word table"
    assert all("output matrix too (tied)" in known[name].about for name in ("head", "embeddings"))
    assert {piece.part for piece in select(tiny, "head")} == {"final-norm", "output"}
    assert slices_of(tiny)["head"].title == "final norm + output"
    assert "tied" not in slices_of(tiny)["embeddings"].about
    with pytest.raises(ValueError, match="minilm has no feed-forward gate: choose one of all, encoder"):
        select(outline("minilm"), "ffn-gate", (0,))


def test_what_glows_with_a_slice():
    inside = {name: [other for other, s in SLICES.items() if s.of_layer and holds(SLICES[name], s)] for name in SLICES}
    assert inside["layer"] == ["qkv", "query", "key", "value", "attention-output", *FFN]
    assert inside["qkv"] == ["query", "key", "value"]
    assert inside["query"] == []
