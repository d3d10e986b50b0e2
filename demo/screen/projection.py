"""Word vectors in three dimensions: one PCA basis per run, fitted once, so that every frame can be compared.

projection = Projection.fit(model, truth)
projection(snapshot.embeddings)  # (tokens, hidden) -> (tokens, 3)
"""

from dataclasses import dataclass

import numpy as np
from sklearn.decomposition import PCA
from torch import Tensor

from demo.attacker.lens import frequent_ids
from demo.victim.model import Model

BACKGROUND = 120  # ordinary words that give the space its shape
WEIGHT = 4  # how often each true vector counts in the fit: the sentence is what the picture is of


@dataclass(frozen=True, eq=False)
class Projection:
    """A fitted basis, with the background words that it was fitted on."""

    pca: PCA
    background: Tensor  # (words,) ids

    @classmethod
    def fit(cls, model: Model, truth: Tensor) -> "Projection":
        """Fits on the true word vectors and a fixed background; `truth` holds no special tokens."""
        frequent = frequent_ids(model)[10:]  # after the marks
        every = max(1, min(len(frequent), 4000) // BACKGROUND)  # frequent and less frequent words alike
        background = frequent[::every][:BACKGROUND].cpu()
        vectors = model.words.cpu()[np.concatenate([np.tile(truth.cpu(), WEIGHT), background])]
        return cls(PCA(3, svd_solver="full").fit(vectors.numpy()), background)

    def __call__(self, vectors: Tensor) -> np.ndarray:
        """(n, hidden) -> (n, 3)"""
        return self.pca.transform(vectors.numpy())

    @property
    def variance(self) -> list[float]:
        """The share of the variance that each axis holds."""
        return self.pca.explained_variance_ratio_.tolist()
