"""How sure an attack may be of a word: of the words that are shown as x % sure, about x % are right.

An attack has a number for how well each word fits, but no idea how often such a word is right. That was measured
(`python -m demo.benchmark calibration`): for each kind of score, a logistic curve turns the word's number, and how well
the whole guess does, into a chance. Nothing of it is learned from the sentence under attack.
"""

import math

import torch
from torch import Tensor

from demo.attacks.base import Snapshot
from demo.attacks.objectives import COORDINATES, COSINE, SPAN, VECTOR, WORD, Objective

# Those whose values can be set beside each other, whatever leaks; other scores say nothing about other experiments.
COMPARABLE = (SPAN, WORD, COORDINATES, VECTOR, COSINE)
SMALLEST, LARGEST = 1e-6, 10.0  # scores beyond are as good as these
EDGE = 1e-3  # confidences nearer to 0 or 1 count as this

# The curve of each kind of score: its height, how much a word's own number counts, and how much the guess's score does.
CURVES: dict[str, tuple[float, float, float]] = {}
USUAL = (0.0, 1.0, 0.0)  # the attack's own number, where nothing was measured


def chances(shot: Snapshot) -> Tensor:
    """(tokens,): the chance that each word of the guess is right."""
    if shot.certified:
        return torch.ones_like(shot.confidence)
    height, own, whole = CURVES.get(shot.meaning.name, USUAL)
    return torch.sigmoid(
        height + own * fit_of_words(shot.confidence) + whole * fit_of_guess(shot.meaning, shot.objective)
    )


def fit_of_words(confidence: Tensor) -> Tensor:
    """A number from 0 to 1 -> the logarithm of its odds."""
    return torch.logit(confidence.double(), EDGE)


def fit_of_guess(meaning: Objective, objective: float) -> float:
    """How many powers of ten the guess's score is below 1; 0 where it cannot be compared."""
    if meaning not in COMPARABLE or math.isnan(objective):
        return 0.0
    return -math.log10(min(max(objective, SMALLEST), LARGEST))
