import numpy as np
import torch
from sklearn.decomposition import PCA

from demo.screen.projection import BACKGROUND, WEIGHT, Projection


def test_one_basis_is_kept_and_is_scikit_learns(tiny):
    truth = tiny.encode("the cat sat on the mat")[1:-1]
    projection = Projection.fit(tiny, truth)
    vectors = tiny.words[torch.cat([truth.repeat(WEIGHT), projection.background])].numpy()
    expected = PCA(3, svd_solver="full").fit(vectors).transform(tiny.words[truth].numpy())
    np.testing.assert_allclose(projection(tiny.words[truth]), expected, atol=1e-5)
    assert len(projection.background) == BACKGROUND
    assert 0 < sum(projection.variance) < 1


def test_true_words_are_told_apart(minilm):
    """The picture is of the sentence: its words must not fall on one another."""
    truth = minilm.encode("the patient was diagnosed with diabetes")[1:-1]
    points = Projection.fit(minilm, truth)(minilm.words[truth])
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1)[np.triu_indices(len(points), 1)]
    assert apart.min() > 0.02 * apart.max()
