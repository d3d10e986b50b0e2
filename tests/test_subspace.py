import pytest
import torch

from demo.attacker.subspace import basis_of, read_length, views

SENTENCE = "the cat sat on the mat"
PARTS = ["query", "key", "value", "attention-output", "ffn-in", "ffn-out"]


@pytest.mark.parametrize("shape", [(40, 30), (30, 40)])
def test_basis_is_the_svds(shape):
    matrix = torch.randn(shape[0], 5) @ torch.randn(5, shape[1])
    ours = basis_of(matrix)
    theirs = torch.linalg.svd(matrix)[2][:5].T
    assert ours.shape == (shape[1], 5)
    torch.testing.assert_close(ours @ ours.T, theirs @ theirs.T, atol=1e-5, rtol=0)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("layer", [0, 1])
def test_true_features_lie_in_the_view(minilm, leak_of, part, layer):
    """The claim everything rests on, for every matrix; a sentence of other words lies outside."""
    (view,) = views(leak_of(minilm, part, (layer,), SENTENCE))
    outside = []
    for sentence in (SENTENCE, "a dog lay in my bed"):
        stream = view.stream(minilm.net, minilm.net.embed(minilm.words[minilm.encode(sentence)])[None])
        worst = 0.0
        for features, basis in zip(view.features(minilm.net, stream), view.bases, strict=True):
            if view.centred:
                features = features - features.mean(1, keepdim=True)
            if basis.shape[1] + view.centred == 8:  # a head whose attention is degenerate spans less
                share = (features @ basis).square().sum(-1) / features.square().sum(-1)
                worst = max(worst, float((1 - share).max()))
        outside.append(worst)
    assert outside[0] < 1e-3
    assert outside[1] > 0.1


@pytest.mark.parametrize("part", [*PARTS, "all", "embeddings", "layer"])
def test_length_is_read_from_the_leak(minilm, leak_of, part):
    assert read_length(leak_of(minilm, part, (2,), SENTENCE, length=False)) == 8


def test_length_of_the_last_layer_is_not_guessed(minilm, leak_of):
    assert read_length(leak_of(minilm, "ffn-in", (5,), SENTENCE, length=False)) is None
    assert read_length(leak_of(minilm, "ffn-in", (5,), SENTENCE)) == 8


def test_easiest_view_comes_first(minilm, leak_of):
    assert views(leak_of(minilm, "all", (), SENTENCE))[0].piece.name == "0.query.weight"
    assert views(leak_of(minilm, "layer", (5,), SENTENCE))[0].piece.name == "5.value.weight"  # its query has rank 1
    assert views(leak_of(minilm, "head", (), SENTENCE))[0].read_row_only
