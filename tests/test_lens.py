import torch

from demo.attacker.lens import Lens, embedded_at, frequent_ids, random_sentences


def test_embedded_at_is_the_networks_own_embedding(tiny):
    ids = tiny.encode("one two three four")
    expected = tiny.net.embed(tiny.words[ids])
    for place in range(len(ids)):
        torch.testing.assert_close(embedded_at(tiny, ids, [place])[0, place], expected[place])


def test_lens_finds_a_linear_map(tiny):
    """Where the states are a linear map of the embeddings, the lens is that map, up to its ridge."""
    generator = torch.Generator().manual_seed(2)
    matrix, shift = torch.randn(48, 48, generator=generator), torch.randn(48, generator=generator)
    lens = Lens.fit(tiny, lambda embedded: embedded @ matrix + shift, length=9, seed=0)
    embedded = tiny.net.embed(tiny.words[random_sentences(tiny, 5, 9, seed=7)])[:, 1:-1]
    expected = embedded @ matrix + shift
    assert (lens(embedded) - expected).norm() < 0.03 * expected.norm()


def test_lens_sees_most_of_a_real_layer(minilm):
    """In context it never saw, the lens explains most of what sets tokens apart in the middle of a pretrained model."""
    lens = Lens.fit(minilm, lambda embedded: minilm.net.inputs(embedded, 3), length=9, seed=0)
    embedded = minilm.net.embed(minilm.words[random_sentences(minilm, 64, 9, seed=7)])
    states = minilm.net.inputs(embedded, 3)[:, 1:-1].flatten(0, 1)
    missed = states - lens(embedded[:, 1:-1].flatten(0, 1))
    assert missed.square().sum() < 0.3 * (states - states.mean(0)).square().sum()


def test_frequent_words_come_first(minilm):
    first = minilm.tokens(frequent_ids(minilm)[:40])
    assert {".", ",", "a", "i", "the", "of", "and", "to", "was", "with"} <= set(first)


def test_random_sentences_are_reproducible(minilm):
    one, same, other = (random_sentences(minilm, 4, 7, seed) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert (one[:, 0] == 101).all()
    assert (one[:, -1] == 102).all()
