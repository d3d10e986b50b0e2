"""What each party knows: the client its `Secret`, the attacker a `Leak`. `share` is the only door between them.

A batch is its sentences laid end to end, each from its [CLS] to its [SEP]: `model.sentences(ids)` takes them apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from demo.defenses import Average, Defense, Gradient, Mask, Noise, Prune, Round, averaged, defended, repeated, total
from demo.models import Model, ModelError
from demo.network import NONE, Masks, Network
from demo.slices import Piece, all_pieces, modules
from demo.turns import tick

MOST_DROPOUT = 0.4
MOST_SENTENCES = 8
STRANGERS = (  # what other clients train on, where their gradients are averaged with ours: sentence, label
    ("The bakery opens at seven.", 1), ("My sister plays the cello.", 0), ("Rain fell on the tents all night.", 1),
    ("He sold his old bicycle yesterday.", 0), ("The ferry leaves from the north pier.", 1),
    ("Nobody answered the door.", 0), ("Her garden is full of roses.", 1), ("The meeting was moved to Friday.", 0),
    ("Our cat sleeps on the piano.", 1), ("They painted the kitchen green.", 0),
)  # fmt: skip


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
        trained = sentences if dropout else ()
        masks = tuple(drawn_masks(model.net, len(ids), dropout, generator, model.device) for ids in trained)
        return cls(tuple(sentences), tuple(labels), dropout, masks)

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
    defenses: tuple[Defense, ...] = ()  # public too; what they draw at random is not

    @property
    def veiled(self) -> bool:
        """Whether even the truth has another gradient than the leaked one, as nobody can repeat what was drawn."""
        noisy = any(isinstance(defense, Noise) and defense.noise_multiplier > 0 for defense in self.defenses)
        return noisy or self.dropout > 0

    @property
    def sparse(self) -> bool:
        """Whether only a part of the numbers was sent, and zeros stand for the others."""
        return any(isinstance(defense, Prune | Mask) for defense in self.defenses)

    def sent(self, piece: Piece) -> Tensor:
        """Which numbers of a piece were sent: all, or those that are not zero."""
        value = self.gradient[piece.name]
        return value != 0 if self.sparse else torch.ones_like(value, dtype=torch.bool)

    def blur(self, piece: Piece) -> float:
        """The standard deviation of what defenses added to each number of a piece."""
        return math.hypot(*(defense.blur(self.gradient[piece.name], self.batch) for defense in self.defenses))

    @property
    def length(self) -> int | None:
        """Of the only sentence; None where it is unknown, or where there are several."""
        return self.lengths[0] if self.lengths and self.batch == 1 else None

    def sentences(self, ids: Tensor) -> list[Tensor]:
        """A guess at the whole batch -> its sentences; a guess at one sentence is one, whatever it holds."""
        return self.model.sentences(ids) if self.batch > 1 else [ids]

    def weight(self, part: str, layer: int | None = None) -> Tensor | None:
        """The gradient of one part's weight, or None where it is not exposed."""
        return self.gradient.get(f"{part}.weight" if layer is None else f"{layer}.{part}.weight")


def share(
    model: Model, secret: Secret, pieces: Sequence[Piece], length: bool = True, label: bool = True,
    defenses: Sequence[Defense] = (), seed: int = 0,
) -> Leak:  # fmt: skip
    """What the client sends: the chosen pieces, and whether the attacker is told the lengths and the labels.

    Where clients are averaged, the leak is that of a batch in which our sentence is the first.
    """
    secret = among_strangers(model, secret, defenses, seed)
    if not defenses:
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


def among_strangers(model: Model, secret: Secret, defenses: Sequence[Defense], seed: int) -> Secret:
    """The batch of all clients whose gradients are averaged: ours, and others' drawn from the seed."""
    others = sum(defense.clients - 1 for defense in defenses if isinstance(defense, Average))
    if not others:
        return secret
    if len(secret.sentences) > 1 or others >= MOST_SENTENCES:
        raise ValueError(
            f"{len(secret.sentences)} sentences and {others} other clients: give one sentence, and at most 7"
        )
    generator = torch.Generator().manual_seed(seed + 2**33)
    drawn = [STRANGERS[n] for n in torch.randperm(len(STRANGERS), generator=generator)[:others].tolist()]
    crowd = Secret.of(
        model, [model.encode(text) for text, _ in drawn], [label for _, label in drawn], secret.dropout, seed + 1
    )
    return Secret(
        secret.sentences + crowd.sentences, secret.labels + crowd.labels, secret.dropout, secret.masks + crowd.masks
    )


def examples_of(
    model: Model, sentences: Sequence[Tensor], labels: Sequence[int], pieces: Sequence[Piece],
    defenses: Sequence[Defense], masks: Sequence[Masks] = (),
) -> list[Gradient]:  # fmt: skip
    """Each sentence's own gradient; of all parameters, where a defense looks at all of them."""
    needed = all_pieces(model) if any(defense.whole for defense in defenses) else pieces
    every = zip(sentences, labels, masks or [NONE] * len(sentences), strict=True)
    return [gradient_of(model, [ids], [label], needed, [mask]) for ids, label, mask in every]


def drawn_masks(net: Network, tokens: int, rate: float, generator: torch.Generator, device: torch.device) -> Masks:
    """Dropout as train mode draws it: each number is dropped with this chance, and the others make up for it."""
    return {
        site: (torch.rand(1, *shape, generator=generator) >= rate).float().div(1 - rate).to(device)
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
    net = model.net.trained
    found = modules(net)
    parameters = [getattr(found[piece.module], piece.kind) for piece in pieces]
    with torch.enable_grad():
        total = torch.zeros((), device=model.device)
        for ids, label, mask in zip(sentences, labels, masks or [NONE] * len(sentences), strict=True):
            logits = net(net.words[ids][None], mask)
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
    noise      Under known noise: by how many standard deviations what is left over is more, or less, than noise
               would leave. It is given only where a sentence that is a tenth off would show.
    span       Under dropout: of the word that agrees least with a vector of the leaked span, the share of coordinates
               that do not agree. Dropout explains as many as its rate; a wrong word leaves most of them.
    """

    residual: float
    tolerance: float = 1e-5
    proof: str = "gradient"

    @property
    def holds(self) -> bool:
        return self.residual <= self.tolerance


ROUNDING = {"fp16": 1e-3, "int8": 1e-2}  # on another device a number may round the other way
DEVIATIONS = 4.0  # standard deviations by which noise may differ from what is expected of it
TENTH_OFF = 0.01  # of the energy is left by a gradient that is off by a tenth; wrong sentences were off by more
FLOOR = 1e-5  # a piece below this share of the largest norm is rounding, e.g. the key bias, whose gradient is zero


def certify(leak: Leak, sentences: Sequence[Tensor], labels: Sequence[int]) -> Certificate | None:
    """Computes the guess's own gradient, defended alike, and compares it with the leak, piece by piece.

    Under dropout there is none: without the client's masks even the truth has another gradient.
    """
    if leak.dropout:
        return None
    clean = clean_gradient(leak, sentences, labels)
    if leak.veiled:
        return _explained_by_noise(leak, clean)
    norms = {name: value.norm() for name, value in clean.items()}
    floor = FLOOR * max(norms.values())
    ours = repeated(clean, leak.defenses, leak.batch)
    errors = []
    for piece in leak.pieces:
        tick()
        name, value = piece.name, leak.gradient[piece.name]
        if norms[name] > floor:
            errors.append(((ours[name] - value) * leak.sent(piece)).norm() / value.norm().clamp_min(1e-30))
    rounded = [ROUNDING[defense.kind] for defense in leak.defenses if isinstance(defense, Round)]
    return Certificate(float(torch.stack(errors).max()) if errors else torch.inf, max([1e-5, *rounded]))


def clean_gradient(leak: Leak, sentences: Sequence[Tensor], labels: Sequence[int]) -> Gradient:
    """A guess's gradient as the client had it before it covered anything: clipped, where the client clips."""
    if not leak.defenses:
        return gradient_of(leak.model, sentences, labels, leak.pieces)
    examples = examples_of(leak.model, sentences, labels, leak.pieces, leak.defenses)
    return averaged(examples, leak.defenses, [piece.name for piece in leak.pieces])


def log_likelihood(leak: Leak, sentences: Sequence[Tensor], labels: Sequence[int]) -> float:
    """How likely known noise makes the leak, were this the sentence; in nats, up to a constant."""
    clean = clean_gradient(leak, sentences, labels)
    return -0.5 * sum(_leftover(leak, clean, piece) for piece in leak.pieces)


def _explained_by_noise(leak: Leak, clean: Gradient) -> Certificate:
    numbers = sum(int(leak.sent(piece).sum()) for piece in leak.pieces)
    spread = math.sqrt(2 * numbers)
    left = sum(_leftover(leak, clean, piece) for piece in leak.pieces)
    nothing = {piece.name: leak.gradient[piece.name] - clean[piece.name] for piece in leak.pieces}
    signal = sum(_leftover(leak, nothing, piece) for piece in leak.pieces)
    tells = TENTH_OFF * signal > 2 * DEVIATIONS * spread
    return Certificate(abs(left - numbers) / spread, DEVIATIONS if tells else -1.0, "noise")


def _leftover(leak: Leak, clean: Gradient, piece: Piece) -> float:
    """The squared difference to the leak, in units of the noise."""
    tick()
    off = (leak.gradient[piece.name] - clean[piece.name]) / leak.blur(piece)
    return total((off * leak.sent(piece)).square())
