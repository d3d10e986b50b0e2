import threading

import pytest
import torch

from demo.attacker.matching import DISTANCES, Matcher, one_hot, plain_distance
from demo.client.secret import Secret
from demo.victim.gradients import gradient_of
from demo.victim.slices import select
from tests.conftest import SENTENCE, UNGATED

CASES = [(slice_, kind) for slice_ in UNGATED for kind in DISTANCES]


def dummies(model, rows, tokens=12):
    return (torch.randn(rows, tokens, model.hidden, generator=torch.Generator().manual_seed(3)) * 0.3).requires_grad_()


@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.parametrize("which", ["tiny", "tiny_decoder"])
def test_equals_plain_autograd(request, leak_of, which, name, kind):
    """Value and gradient of the factored distance are those of full dummy gradients, row by row."""
    model = request.getfixturevalue(which)
    leak = leak_of(model, name, (0, 2))
    words = dummies(model, 3)
    ours = Matcher(leak).distance(words, one_hot(model, [1], 3), kind)
    ours_gradient = torch.autograd.grad(ours.sum(), words)[0]
    for row in range(3):
        single = words[row : row + 1].detach().requires_grad_(True)
        plain = plain_distance(leak, single, 1, kind)
        torch.testing.assert_close(ours[row], plain, rtol=1e-3, atol=1e-5)
        expected = torch.autograd.grad(plain, single)[0][0]
        gap = (ours_gradient[row] - expected).norm() / expected.norm()
        assert gap < 2e-3


@pytest.mark.parametrize("name", UNGATED)
@pytest.mark.parametrize("kind", DISTANCES)
def test_truth_is_at_zero(tiny, leak_of, name, kind):
    leak = leak_of(tiny, name, (1,))
    true = tiny.words[tiny.encode("the cat sat on the mat near the red door")][None]
    other = tiny.words[tiny.encode("the cat sat on the mat near the old door")][None]
    near, far = (float(Matcher(leak).distance(x, one_hot(tiny, [1], 1), kind, graph=False)) for x in (true, other))
    assert abs(near) < 1e-2 * far


def test_rows_are_independent(tiny, leak_of):
    matcher, words = Matcher(leak_of(tiny, "all")), dummies(tiny, 4)
    together = matcher.distance(words, one_hot(tiny, [0], 4), "cosine")
    alone = torch.cat([matcher.distance(words[i : i + 1], one_hot(tiny, [0], 1), "cosine") for i in range(4)])
    torch.testing.assert_close(together, alone)


def test_key_bias_is_left_out(tiny, leak_of):
    """Its gradient is zero but for rounding, which a cosine would weigh like signal."""
    names = {piece.name for piece in Matcher(leak_of(tiny, "layer", (1,))).pieces}
    assert "1.query.bias" in names
    assert "1.key.bias" not in names


def test_two_visitors_share_a_network(tiny, leak_of):
    """While one matches, another matches too, through the same modules, and takes training steps: neither is overheard,
    and nobody finds the network's own tensors in need of gradients."""
    leak = leak_of(tiny, "all")
    words, label = tiny.words[tiny.encode(SENTENCE)][None], one_hot(tiny, [1], 1)
    matcher, done = Matcher(leak), threading.Event()

    def other():
        theirs = tiny.words[tiny.encode("one two three")][None]
        while not done.is_set():
            gradient_of(tiny, [tiny.encode("one two three")], [0], select(tiny, "all"))
            matcher.distance(theirs, label, "l2", graph=False)

    visitor = threading.Thread(target=other)
    visitor.start()
    try:
        distances, clean = [], True
        for _ in range(150):
            distances.append(matcher.distance(words, label, "l2", graph=False).item())
            clean = clean and not any(parameter.requires_grad for parameter in tiny.net.parameters())
    finally:
        done.set()
        visitor.join()
    assert clean
    assert max(distances) - min(distances) < 1e-6


@pytest.mark.parametrize("kind", DISTANCES)
def test_batches_and_masks_equal_plain_gradients(tiny, leak_of, kind):
    """Two sentences of unequal length under dropout: the factored distance is that of their full mean gradient."""
    texts = ["the cat sat", "one two three four"]
    leak = leak_of(tiny, "all", (), "\n".join(["a dog ran", "five six seven eight"]))
    secret = Secret.of(tiny, [tiny.encode(text) for text in texts], [1, 0], 0.2, seed=3)
    dummy = gradient_of(tiny, secret.sentences, secret.labels, leak.pieces, secret.masks)
    matcher = Matcher(leak, [5, 6])
    ours = matcher.distance(tiny.words[secret.ids][None], one_hot(tiny, [1, 0], 1), kind, masks=secret.masks)
    gaps = [(dummy[piece.name], leak.gradient[piece.name]) for piece in matcher.pieces]
    if kind == "cosine":
        cosine = torch.nn.functional.cosine_similarity
        expected = torch.stack([1 - cosine(a.flatten(), b.flatten(), dim=0) for a, b in gaps]).mean()
    else:
        expected = torch.stack([(a - b).square().sum() for a, b in gaps]).sum()
        if kind == "l2+l1":
            both = zip(matcher.pieces, gaps, strict=True)
            expected = expected + sum(matcher._alpha(piece) * (a - b).abs().sum() for piece, (a, b) in both)
    torch.testing.assert_close(ours[0], expected, rtol=1e-3, atol=1e-5)
