"""What each party knows: the client its `Secret`, the attacker a `Leak`. `share` is the only door between them.

A batch is its sentences laid end to end, each from its [CLS] to its [SEP]: `model.sentences(ids)` takes them apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from demo.models import Model, ModelError
from demo.network import NONE, Masks, Network
from demo.slices import Piece, modules

Gradient = dict[str, Tensor]  # piece name -> the gradient of that parameter
MOST_DROPOUT = 0.4
MOST_SENTENCES = 8


@dataclass(frozen=True, eq=False)
class Secret:
    """The client's private batch, and which numbers dropout spared in its training step. No attack may hold one."""

    sentences: tuple[Tensor, ...]  # each (tokens,), [CLS] and [SEP] included
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
        drawn = [drawn_masks(model.net, len(ids), dropout, generator, model.device) for ids in sentences]
        return cls(tuple(sentences), tuple(labels), dropout, tuple(drawn) if dropout else ())

    @property
    def ids(self) -> Tensor:
        return torch.cat(self.sentences)


@dataclass(frozen=True, eq=False)
class Leak:
    """All that an attacker sees: the public model, the exposed pieces of the gradient, and what it was told."""

    model: Model
    pieces: tuple[Piece, ...]
    gradient: Gradient
    lengths: tuple[int, ...] | None = None  # of each sentence, [CLS] and [SEP] included; None: unknown
    labels: tuple[int, ...] | None = None
    batch: int = 1
    dropout: float = 0.0  # the rate is public, as a part of the training recipe; the masks are not

    @property
    def length(self) -> int | None:
        """Of the only sentence; None where it is unknown, or where there are several."""
        return self.lengths[0] if self.lengths and self.batch == 1 else None

    def weight(self, part: str, layer: int | None = None) -> Tensor | None:
        """The gradient of one part's weight, or None where it is not exposed."""
        return self.gradient.get(f"{part}.weight" if layer is None else f"{layer}.{part}.weight")


def share(model: Model, secret: Secret, pieces: Sequence[Piece], length: bool = True, label: bool = True) -> Leak:
    """What the client sends: the chosen pieces, and whether the attacker is told the lengths and the labels."""
    gradient = gradient_of(model, secret.sentences, secret.labels, pieces, secret.masks)
    lengths = tuple(len(ids) for ids in secret.sentences) if length else None
    labels = secret.labels if label else None
    return Leak(model, tuple(pieces), gradient, lengths, labels, len(secret.sentences), secret.dropout)


def drawn_masks(
    net: Network, tokens: int, rate: float, generator: torch.Generator, device: torch.device, rows: int = 1
) -> Masks:
    """Dropout as train mode draws it: each number is dropped with this chance, and the others make up for it."""
    return {
        site: (torch.rand(rows, *shape, generator=generator) >= rate).float().div(1 - rate).to(device)
        for site, shape in net.sites(tokens).items()
    }


def gradient_of(
    model: Model, sentences: Sequence[Tensor], labels: Sequence[int], pieces: Sequence[Piece],
    masks: Sequence[Masks] = (),
) -> Gradient:  # fmt: skip
    """The gradient of the mean loss on a batch: the client's step, and how an attacker checks a guess."""
    classes = model.net.classifier.out_features
    for label in labels:
        if not 0 <= label < classes:
            raise ModelError(f"label {label} does not exist: choose 0 to {classes - 1}")
    found = modules(model.net)
    parameters = [getattr(found[piece.module], piece.kind) for piece in pieces]
    with model.net.thawed(parameters), torch.enable_grad():
        total = torch.zeros((), device=model.device)
        for ids, label, mask in zip(sentences, labels, masks or [NONE] * len(sentences), strict=True):
            logits = model.net(model.words[ids][None], mask)
            total = total + F.cross_entropy(logits, torch.tensor([label], device=model.device))
        values = torch.autograd.grad(total / len(sentences), parameters, allow_unused=True)
    return {
        piece.name: torch.zeros_like(parameter) if value is None else value
        for piece, parameter, value in zip(pieces, parameters, values, strict=True)
    }


@dataclass(frozen=True)
class Certificate:
    """Why a guess must be the sentence: what it leaves unexplained is no more than it may.

    gradient   The guess's own gradient, computed anew, and its largest relative error over the exposed pieces that
               carry signal. The truth repeats the client's own arithmetic, so its residual is rounding only; sentences
               that differ in one word score 1e-3 and more.
    rows       The word table's rows, rebuilt as sums of the position table's, and their relative error. No dropout mask
               is needed for it.
    span       Under dropout: of the word that agrees least with a vector of the leaked span, the share of coordinates
               that do not agree. Dropout explains as many as its rate; a wrong word leaves most of them.
    """

    residual: float
    tolerance: float = 1e-5
    proof: str = "gradient"

    @property
    def holds(self) -> bool:
        return self.residual <= self.tolerance


FLOOR = 1e-5  # a piece below this share of the largest norm is rounding, e.g. the key bias, whose gradient is zero


def certify(leak: Leak, sentences: Sequence[Tensor], labels: Sequence[int]) -> Certificate | None:
    """Computes the guess's own gradient and compares it with the leak, piece by piece.

    Under dropout there is none: without the client's masks even the truth has another gradient.
    """
    if leak.dropout:
        return None
    ours = gradient_of(leak.model, sentences, labels, leak.pieces)
    norms = {name: value.norm() for name, value in leak.gradient.items()}
    floor = FLOOR * max(norms.values())
    errors = [(ours[name] - value).norm() / norms[name] for name, value in leak.gradient.items() if norms[name] > floor]
    return Certificate(float(torch.stack(errors).max()) if errors else torch.inf)
