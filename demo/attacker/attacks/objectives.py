"""What the number is that an attack makes small: a name for its curve, and what it means, for people.

It is the attack's own score, by which it chooses its next guess, and seldom what the verdict stands on: a certificate
compares gradients, whatever led to the guess.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Objective:
    """One kind of score, told beside every value of it."""

    name: str
    title: str  # over its curve, with the unit where it has one
    about: str  # in a sentence or two
    log: bool = True  # a distance, which falls by powers of ten; else evidence, which grows
    negated: bool = False  # minimised as its negative, and shown as what it is


UNNAMED = Objective(
    "unnamed",
    "How far the guess is off, as the attack measures it",
    "What the attack makes small: how badly the guess explains the leaked gradient.",
)
SPAN = Objective(
    "span",
    "How badly the guess fits the leaked span",
    "The search's own score: the share of the guess's states that lies outside of the span of the leaked gradient, and "
    "the share of the span that they leave uncovered. 0 is a perfect fit.",
)
WORD = Objective(
    "word",
    "Share of the worst word outside of the leaked span",
    "Of the words read so far, the one that fits worst: how much of its vector lies outside of the span of the leaked "
    "gradient. 0 lies in it.",
)
COORDINATES = Objective(
    "coordinates",
    "Share of the worst word's coordinates that disagree",
    "Of the words read so far, the one that fits worst: the share of its coordinates that disagree with the leaked "
    "span. Dropout alone explains as many as its rate.",
)
VECTOR = Objective(
    "vector",
    "How far the guess's vector is from the leaked one",
    "The search's own score: one vector leaks here, and this is the squared difference to the guess's, weighed by what "
    "wrong words usually change. 0 is the same vector.",
)
COSINE = Objective(
    "cosine",
    "Gradients apart: 1 − cosine, mean over the matrices",
    "0 points where the leaked gradient points, 1 is perpendicular to it. A penalty on the dummies' length is added "
    "while they descend, where the attack has one.",
)
SQUARES = Objective(
    "l2",
    "Gradients apart: sum of squared differences",
    "The squared distance between the dummies' gradient and the leaked one, over all exposed numbers.",
)
SQUARES_AND_SIZES = Objective(
    "l2+l1",
    "Gradients apart: squared and absolute differences",
    "TAG's distance between the dummies' gradient and the leaked one: squares, and absolute values weighted by depth.",
)
GRADIENT = Objective(
    "gradient",
    "Relative difference of the two gradients",
    "The guess's own gradient, computed anew, beside the leaked one: the same figure that the verdict gives.",
)
ROWS = Objective(
    "rows",
    "Relative difference of the word table's rows",
    "The word table's rows, rebuilt from the position table's, beside the leaked ones: the figure that the verdict "
    "gives.",
)
DEVIATIONS = Objective(
    "deviations",
    "Standard deviations from mere noise",
    "By how much what the guess leaves over is more, or less, than the known noise would leave: the figure that the "
    "verdict gives.",
)
NATS = Objective(
    "nats",
    "Evidence for the guess, in nats (higher is better)",
    "How much likelier the guess makes the noisy gradient than no guess at all: each nat is a factor of e. The dashed "
    "line, which the attacker cannot see, is the true sentence.",
    log=False,
    negated=True,
)

OBJECTIVES = (
    SPAN,
    WORD,
    COORDINATES,
    VECTOR,
    COSINE,
    SQUARES,
    SQUARES_AND_SIZES,
    GRADIENT,
    ROWS,
    DEVIATIONS,
    NATS,
    UNNAMED,
)
OF_DISTANCE = {objective.name: objective for objective in (COSINE, SQUARES, SQUARES_AND_SIZES)}
OF_PROOF = {"gradient": GRADIENT, "rows": ROWS, "noise": DEVIATIONS}
