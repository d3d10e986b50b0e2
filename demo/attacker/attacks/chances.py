"""How sure an attack may be of a word: of the words that are shown as x % sure, about x % are right.

An attack has a number for how well each word fits, but no idea how often such a word is right. That was measured
(`python -m demo.benchmark calibration`): for each kind of score, a logistic curve turns the word's number, and how well
the whole guess does, into a chance. Nothing of it is learned from the sentence under attack.
"""

import math

import torch
from torch import Tensor

from demo.attacker.attacks.base import Snapshot
from demo.attacker.attacks.objectives import COORDINATES, SPAN, VECTOR, WORD, Objective

# Those whose values can be set beside each other, whatever leaks; other scores say nothing about other experiments.
COMPARABLE = (SPAN, WORD, COORDINATES, VECTOR)
SMALLEST, LARGEST = 1e-6, 10.0  # scores beyond are as good as these
EDGE = 1e-3  # confidences nearer to 0 or 1 count as this

# Of each kind of score: the curve's height, how much a word's own number counts, and how much the guess's score does.
Curve = tuple[float, float, float]
CURVES: dict[str, Curve] = {  # fitted to 100 runs; to 50 others where those had too few words, or only right ones
    "coordinates": (6.12, 1.69, 0.09),
    "cosine": (-3.35, 0.86, 0.0),
    "l2": (-1.68, 2.39, 0.0),
    "l2+l1": (-2.48, 1.0, 0.0),
    "nats": (-0.89, 0.02, 0.0),
    "span": (-0.99, 0.08, 2.23),
    "vector": (-3.78, 0.45, 0.3),
    "word": (-2.67, 2.0, 0.19),
}
USUAL: Curve = (0.0, 1.0, 0.0)  # the attack's own number, where nothing was measured


def chances(shot: Snapshot) -> Tensor:
    """(tokens,): the chance that each word of the guess is right."""
    if shot.certified:
        return torch.ones_like(shot.confidence)
    return on_curve(CURVES.get(shot.meaning.name, USUAL), fits(shot))


def on_curve(curve: Curve, fits: Tensor) -> Tensor:
    height, own, whole = curve
    return torch.sigmoid(height + own * fits[:, 0] + whole * fits[:, 1])


def fits(shot: Snapshot) -> Tensor:
    """(tokens, 2): the odds of each word's own number, as a logarithm, and how well the whole guess does."""
    own = torch.logit(shot.confidence.double(), EDGE)
    return torch.stack([own, torch.full_like(own, fit_of_guess(shot.meaning, shot.objective))], 1)


def fit_of_guess(meaning: Objective, objective: float) -> float:
    """How many powers of ten the guess's score is below 1; 0 where it cannot be compared."""
    if meaning not in COMPARABLE or math.isnan(objective):
        return 0.0
    return -math.log10(min(max(objective, SMALLEST), LARGEST))
