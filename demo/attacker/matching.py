"""How far a batch of dummies is from the leak, without ever building a dummy gradient.

A linear layer's gradient is G′ = Δ′ᵀX′. With the leaked G kept as low-rank factors L Rᵀ, all that L2 and cosine need is

    ⟨G′, G⟩ = Σ (X′R) ⊙ (Δ′L)          ‖G′‖² = Σ (X′X′ᵀ) ⊙ (Δ′Δ′ᵀ)

which costs tokens² instead of parameters, and keeps the rows of a batch apart: each row is a candidate of its own.

    matcher = Matcher(leak)
    matcher.distance(words, labels, "cosine")  # (rows, tokens, hidden), (rows, sentences, classes) -> (rows,)

A batch of sentences is one candidate too: their tokens stand side by side in X′ and Δ′, and the same lines hold.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo.attacker.certificate import FLOOR
from demo.attacker.leak import Leak
from demo.attacker.subspace import basis_of
from demo.turns import tick
from demo.victim.anatomy import NONE, Masks
from demo.victim.gradients import Gradient
from demo.victim.model import Model
from demo.victim.slices import Piece

DISTANCES = ("l2", "cosine", "l2+l1")


class Matcher:
    """Distances between the leaked gradient and those of dummy word vectors."""

    def __init__(self, leak: Leak, lengths: Sequence[int] = (), alpha: float = 0.1) -> None:
        """`lengths` take a batch apart; one sentence may have any."""
        self.model, self.alpha, self.lengths = leak.model, alpha, tuple(lengths)
        self.pieces, self.gradient = matched(leak.pieces, leak.gradient), leak.gradient
        self.modules = {piece.module: leak.model.net.parts()[piece.module] for piece in self.pieces}
        self.linear = [
            piece.name
            for piece in self.pieces
            if isinstance(self.modules[piece.module], nn.Linear) and piece.kind == "weight"
        ]
        low = not any(leak.blur(piece) for piece in self.pieces)  # what was blurred has no low rank to make use of
        self.factors = {name: _factors(leak.gradient[name]) for name in self.linear} if low else {}
        self.squares = {piece.name: leak.gradient[piece.name].square().sum() for piece in self.pieces}
        self.sent = {piece.name: leak.sent(piece) for piece in self.pieces} if leak.sparse else {}

    def distance(
        self, words: Tensor, labels: Tensor, kind: str, graph: bool = True, masks: Sequence[Masks] = ()
    ) -> Tensor:
        """(rows, tokens, hidden) word vectors and (rows, sentences, classes) label probabilities -> (rows,).

        `graph=False` is for scoring: a first-order pass whose result cannot be differentiated. `masks` are what each
        sentence's dropout is supposed to have been, with a row for every candidate.
        """
        inputs, deltas = self._backward(words, labels, graph, masks)
        total = torch.zeros(len(words), device=words.device)
        for piece in self.pieces:
            tick()
            x, delta = inputs[piece.module], deltas[piece.module]
            if kind == "l2+l1":
                gap = self._built(piece, x, delta) - self._leaked(piece, delta)
                total = total + gap.square().sum((1, 2)) + self._alpha(piece) * gap.abs().sum((1, 2))
                continue
            dot, square = self._products(piece, x, delta)
            leaked = self.squares[piece.name]
            if kind == "l2":
                total = total + square - 2 * dot + leaked
            else:
                total = total + (1 - dot / (square * leaked).clamp_min(1e-36).sqrt()) / len(self.pieces)
        return total if graph else total.detach()

    def _backward(
        self, words: Tensor, labels: Tensor, graph: bool, masks: Sequence[Masks]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Each exposed module's inputs and the loss's gradient at its outputs: (rows, tokens, width) both."""
        inputs: dict[str, list[Tensor]] = {name: [] for name in self.modules}
        outputs: dict[str, list[Tensor]] = {name: [] for name in self.modules}
        lengths = self.lengths or (words.shape[1],)

        def keep(name: str) -> Callable:
            def hook(module: nn.Module, given: tuple, result: Tensor) -> None:
                # What is added to a word has no output of its own: its δ arrives where the sum passes.
                summed = name in self.model.net.ADDED
                inputs[name].append(given[0])
                outputs[name].append(given[0] if summed else result)

            return hook

        with self.model.net.alone, ExitStack() as hooks, torch.enable_grad():
            for name, module in self.modules.items():
                module = self.model.net.summed if name in self.model.net.ADDED else module
                hooks.callback(module.register_forward_hook(keep(name)).remove)
            words = words if words.requires_grad else words.detach().requires_grad_(True)
            loss = torch.zeros((), device=words.device)
            for n, sentence in enumerate(words.split(lengths, dim=1)):
                targets = labels[:, n] if self.model.net.labels else nearest_words(self.model, sentence)
                loss = loss + self.model.net.loss(sentence, targets, masks[n] if masks else NONE).sum() / len(lengths)
            flat = [output for parts in outputs.values() for output in parts]
            found = iter(torch.autograd.grad(loss, flat, create_graph=graph, allow_unused=True))
        deltas = {name: [_or_zero(next(found), output) for output in parts] for name, parts in outputs.items()}
        return {name: _beside(parts) for name, parts in inputs.items()}, {
            name: _beside(parts) for name, parts in deltas.items()
        }

    def _products(self, piece: Piece, x: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
        """⟨g′, g⟩ and ‖g′‖² of each row."""
        if piece.name in self.linear and not self.sent:
            if self.factors:
                left, right = self.factors[piece.name]
                dot = ((x @ right) * (delta @ left)).sum((1, 2))
            else:
                dot = ((x @ self.gradient[piece.name].T) * delta).sum((1, 2))
            return dot, ((x @ x.mT) * (delta @ delta.mT)).sum((1, 2))
        small = self._built(piece, x, delta)
        return (small * self._leaked(piece, delta)).sum((1, 2)), small.square().sum((1, 2))

    def _built(self, piece: Piece, x: Tensor, delta: Tensor) -> Tensor:
        """The dummy gradient itself, (rows, …, …): cheap for vectors, unavoidable for L1, or if some was not sent."""
        built = self._whole(piece, x, delta)
        return built * self._cut(piece, self.sent[piece.name], delta) if self.sent else built

    def _whole(self, piece: Piece, x: Tensor, delta: Tensor) -> Tensor:
        if piece.part == "position":
            return _by_place(delta, self.lengths or (delta.shape[1],))
        if piece.part == "type" or piece.kind == "bias":
            return delta.sum(1, keepdim=True)
        normal = self.model.net.normal(self.modules[piece.module], x)
        return delta.mT @ x if normal is None else (delta * normal).sum(1, keepdim=True)

    def _leaked(self, piece: Piece, delta: Tensor) -> Tensor:
        return self._cut(piece, self.gradient[piece.name], delta)

    def _cut(self, piece: Piece, leaked: Tensor, delta: Tensor) -> Tensor:
        """What of a leaked tensor stands beside a dummy's: of the tables, the rows that the sentence can reach."""
        if piece.part == "position":
            return leaked[: max(self.lengths or (delta.shape[1],))]
        return leaked[:1] if piece.part == "type" else leaked if leaked.dim() == 2 else leaked[None]

    def _alpha(self, piece: Piece) -> float:
        """TAG weighs L1 less the deeper the layer; its values are unpublished, so: straight down to zero."""
        layers = self.model.layers
        outside = layers if piece.part in self.model.net.HEAD else 0
        depth = outside if piece.layer is None else piece.layer
        return self.alpha * (1 - depth / layers)


def matched(pieces: tuple[Piece, ...], gradient: Gradient) -> tuple[Piece, ...]:
    """The pieces a dummy can be matched on: not the word table, which is not on its path, and not mere rounding."""
    norms = {piece.name: float(gradient[piece.name].norm()) for piece in pieces}
    floor = FLOOR * max(norms.values())
    return tuple(piece for piece in pieces if piece.part != "word" and norms[piece.name] > floor)


def plain_distance(leak: Leak, words: Tensor, label: int, kind: str, alpha: float = 0.1) -> Tensor:
    """The textbook way, one candidate at a time through its full gradient: the matcher's oracle and speed baseline."""
    pieces = matched(leak.pieces, leak.gradient)
    net = leak.model.net.trained
    found = net.parts()
    parameters = [getattr(found[piece.module], piece.kind) for piece in pieces]
    loss = net.loss(words, leak.model.targets(nearest_words(leak.model, words)[0], label)).sum()
    dummy = torch.autograd.grad(loss, parameters, create_graph=True)
    gaps = [(ours, leak.gradient[piece.name]) for ours, piece in zip(dummy, pieces, strict=True)]
    if kind == "cosine":
        return torch.stack([1 - F.cosine_similarity(a.flatten(), b.flatten(), dim=0) for a, b in gaps]).mean()
    squares = torch.stack([(a - b).square().sum() for a, b in gaps]).sum()
    if kind == "l2":
        return squares
    weights = Matcher(leak, alpha=alpha)
    return squares + sum(weights._alpha(p) * (a - b).abs().sum() for p, (a, b) in zip(pieces, gaps, strict=True))


def one_hot(model: Model, labels: Sequence[int], rows: int) -> Tensor:
    """(rows, sentences, classes); one class, and nothing said, where the next word is the target."""
    if not model.net.labels:
        return torch.zeros(rows, len(labels), 1, device=model.device)
    sure = F.one_hot(torch.tensor(labels, device=model.device), model.net.labels)
    return sure.float().expand(rows, -1, -1)


@torch.no_grad()
def nearest_words(model: Model, words: Tensor) -> Tensor:
    """Word vectors (rows, tokens, hidden) -> the ids whose own are nearest: (rows, tokens)."""
    squares = model.words.square().sum(1)
    return (squares - 2 * words @ model.words.T).argmin(-1)


def _factors(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """G (out, in) = left (out, rank) · right (in, rank)ᵀ, the right one orthonormal."""
    right = basis_of(gradient)
    return gradient @ right, right


def _beside(parts: Sequence[Tensor]) -> Tensor:
    """Each sentence's (rows, tokens, width), or (rows, width) as the head has it -> all tokens of the batch."""
    return torch.cat([x if x.dim() == 3 else x[:, None] for x in parts], dim=1)


def _or_zero(delta: Tensor | None, output: Tensor) -> Tensor:
    return torch.zeros_like(output) if delta is None else delta


def _by_place(delta: Tensor, lengths: Sequence[int]) -> Tensor:
    """(rows, tokens of all sentences, hidden) -> (rows, places, hidden): a place's row sums over the sentences."""
    longest = max(lengths)
    return sum(F.pad(part, (0, 0, 0, longest - part.shape[1])) for part in delta.split(tuple(lengths), dim=1))  # type: ignore[return-value]
