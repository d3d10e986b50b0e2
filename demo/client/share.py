"""The only door in the wall: what the client sends of its training step, a `Secret` -> a `Leak`."""

from collections.abc import Sequence

import torch

from demo.attacker.leak import Leak
from demo.client.defenses import defended
from demo.client.secret import Secret, among_strangers
from demo.victim.gradients import Defense, examples_of, gradient_of
from demo.victim.model import Model
from demo.victim.slices import Piece


def share(
    model: Model,
    secret: Secret,
    pieces: Sequence[Piece],
    length: bool = True,
    label: bool = True,
    defenses: Sequence[Defense] = (),
    seed: int = 0,
    companions: int = 0,
) -> Leak:
    """What the client sends: the chosen pieces, and whether the attacker is told the lengths and the labels.

    Among companions, the leak is that of a batch in which our sentence is the first.
    """
    secret = among_strangers(model, secret, companions, seed)
    if not defenses and not companions:
        gradient = gradient_of(model, secret.sentences, secret.labels, pieces, secret.masks)
    else:
        examples = examples_of(model, secret.sentences, secret.labels, pieces, defenses, secret.masks)
        names = [piece.name for piece in pieces]
        # Another stream than dropout's masks: the same seed must not draw the same numbers for both.
        gradient = defended(examples, defenses, names, torch.Generator().manual_seed(seed + 2**32))
    lengths = tuple(len(ids) for ids in secret.sentences) if length else None
    labels = secret.labels if label else None
    batch = len(secret.sentences)
    return Leak(model, tuple(pieces), gradient, lengths, labels, batch, secret.dropout, tuple(defenses))
