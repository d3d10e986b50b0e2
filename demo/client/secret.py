"""What only the client knows: its sentences, its labels, and what dropout drew. No attack may hold a `Secret`."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from demo.victim.anatomy import Anatomy, Masks
from demo.victim.model import Model

MOST_DROPOUT = 0.4
MOST_SENTENCES = 16
MOST_COMPANIONS = 7
STRANGERS = (  # what other clients train on, where their gradients are averaged with ours: sentence, label
    ("The bakery opens at seven.", 1),
    ("My sister plays the cello.", 0),
    ("Rain fell on the tents all night.", 1),
    ("He sold his old bicycle yesterday.", 0),
    ("The ferry leaves from the north pier.", 1),
    ("Nobody answered the door.", 0),
    ("Her garden is full of roses.", 1),
    ("The meeting was moved to Friday.", 0),
    ("Our cat sleeps on the piano.", 1),
    ("They painted the kitchen green.", 0),
)


@dataclass(frozen=True, eq=False)
class Secret:
    """The client's private batch, and which numbers dropout spared in its training step. No attack may hold one."""

    sentences: tuple[Tensor, ...]  # each (tokens,), with the marks at its ends
    labels: tuple[int, ...]
    dropout: float = 0.0
    masks: tuple[Masks, ...] = ()  # of each sentence; none in eval mode

    @classmethod
    def of(
        cls, model: Model, sentences: Sequence[Tensor], labels: Sequence[int], dropout: float = 0.0, seed: int = 0
    ) -> "Secret":
        """The batch, with masks drawn from the seed where the client trains with dropout."""
        if not 0 <= dropout <= MOST_DROPOUT:
            raise ValueError(f"dropout is {dropout:g}: give a rate from 0 to {MOST_DROPOUT}")
        if not 1 <= len(sentences) <= MOST_SENTENCES:
            raise ValueError(f"the batch has {len(sentences)} sentences: give 1 to {MOST_SENTENCES}")
        generator = torch.Generator().manual_seed(seed)
        trained = sentences if dropout else ()
        masks = tuple(drawn_masks(model.net, len(ids), dropout, generator, model.device) for ids in trained)
        return cls(tuple(sentences), tuple(labels), dropout, masks)

    @property
    def ids(self) -> Tensor:
        return torch.cat(self.sentences)


def among_strangers(model: Model, secret: Secret, others: int, seed: int) -> Secret:
    """The batch of all clients whose gradients are averaged: ours, and so many others' drawn from the seed."""
    if not others:
        return secret
    if len(secret.sentences) > 1 or others > MOST_COMPANIONS:
        raise ValueError(
            f"{len(secret.sentences)} sentences and {others} other clients: "
            f"give one sentence, and at most {MOST_COMPANIONS}"
        )
    generator = torch.Generator().manual_seed(seed + 2**33)
    drawn = [STRANGERS[n] for n in torch.randperm(len(STRANGERS), generator=generator)[:others].tolist()]
    crowd = Secret.of(
        model, [model.encode(text) for text, _ in drawn], [label for _, label in drawn], secret.dropout, seed + 1
    )
    return Secret(
        secret.sentences + crowd.sentences, secret.labels + crowd.labels, secret.dropout, secret.masks + crowd.masks
    )


def drawn_masks(net: Anatomy, tokens: int, rate: float, generator: torch.Generator, device: torch.device) -> Masks:
    """Dropout as train mode draws it: each number is dropped with this chance, and the others make up for it."""
    return {
        site: (torch.rand(1, *shape, generator=generator) >= rate).float().div(1 - rate).to(device)
        for site, shape in net.sites(tokens).items()
    }
