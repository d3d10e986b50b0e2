"""What known noise leaves to be said: how likely each guess makes the leak.

The leak is g + σn, with every number of n drawn from N(0, 1). A guess with the gradient g′ is then likelier than no
guess at all by ⟨g′, leak⟩² / 2σ²‖g′‖² nats, where its length, which clipping changed, is fitted. Every number counts
the same, whichever piece it is of: no other statistic tells more.

    evidence = Evidence(leak, labels=(1,))
    evidence.nats(sentences)  # (rows, tokens) -> (rows,)
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from demo.attacker.leak import Leak
from demo.attacker.matching import Matcher, one_hot
from demo.turns import tick
from demo.victim.gradients import Gradient, gradient_of
from demo.victim.slices import Piece

TELLING = 0.98  # of what can be learned is in the loudest pieces; the others cost most of the time


class Evidence:
    """Weighs guesses at one sentence under known noise, for labels that are taken as given."""

    def __init__(self, leak: Leak, labels: Sequence[int], length: int) -> None:
        self.model, self.labels = leak.model, labels
        self.precision = {piece.name: leak.blur(piece) ** -2 for piece in leak.pieces}
        self.pieces = telling(leak, labels, length, self.precision)
        self.matcher = Matcher(replace(leak, pieces=self.pieces))
        rows = [piece for piece in leak.pieces if piece.part in ("word", "position") and piece.kind == "weight"]
        self.table = leak.weight("word") if len(rows) == 2 else None
        self.counts = self.table is not None and any(piece.part == "word" for piece in self.pieces)
        self.whole = Matcher(replace(leak, pieces=tuple(rows))) if self.table is not None else None

    def nats(self, sentences: Tensor) -> Tensor:
        """How much likelier each sentence (rows, tokens) makes the leak than nothing does."""
        return self.of_words(self.model.words[sentences], sentences, graph=False).detach()

    def of_words(self, words: Tensor, sentences: Tensor | None = None, graph: bool = True) -> Tensor:
        """The same for word vectors (rows, tokens, hidden), which need not be those of words."""
        labels = one_hot(self.model, self.labels, len(words))
        inputs, deltas = self.matcher._backward(words, labels, graph, ())
        dot, square = (torch.zeros(len(words), device=words.device) for _ in range(2))
        for piece in self.matcher.pieces:
            tick()
            one, other = self.matcher._products(piece, inputs[piece.module], deltas[piece.module])
            dot, square = dot + self.precision[piece.name] * one, square + self.precision[piece.name] * other
        if self.counts and sentences is not None:  # a word's row is the sum of δ over its places
            assert self.table is not None
            precision, delta = self.precision["word.weight"], deltas["position"]
            dot = dot + precision * (self.table[sentences] * delta).sum((1, 2))
            same = sentences[:, :, None] == sentences[:, None]
            square = square + precision * ((delta @ delta.mT) * same).sum((1, 2))
        return dot.clamp_min(0).square() / (2 * square.clamp_min(1e-30))

    def rows_together(self, length: int) -> Tensor | None:
        """(tokens, vocabulary): by how many nats a word's row is likelier, were it the word of that place, than if not.

        A word's and its place's leaked rows are the same vector, each with noise of its own. Otherwise the word stands
        in another place, or nowhere, and its row is noise. None where no rows leak.
        """
        if self.whole is None or self.table is None:
            return None
        places = self.whole.gradient["position.weight"][:length]
        here = self.table.square().sum(1) + 2 * places @ self.table.T - places.square().sum(1, keepdim=True)
        best, second = here.topk(2, dim=0).values
        return self.precision["word.weight"] / 4 * (here - torch.where(here == best, second, best).clamp_min(0))

    @torch.no_grad()
    def rows_alike(self, sentence: Tensor) -> Tensor | None:
        """(tokens, vocabulary): how well each word's leaked row agrees with what a place should send to its word.

        That is what the guess itself sends there, and what the place's own row tells. None where no rows leak.
        """
        if self.whole is None or self.table is None:
            return None
        labels = one_hot(self.model, self.labels, 1)
        _, deltas = self.whole._backward(self.model.words[sentence][None], labels, False, ())
        ours, theirs = deltas["position"][0], self.whole.gradient["position.weight"][: len(sentence)]
        # Both tell the direction; the leaked one by as much as it rises above its noise.
        width, noise = ours.shape[1], self.precision["position.weight"] ** -0.5
        above = (theirs.square().sum(1) / (width * noise**2) - 1).clamp_min(0)
        unit = ours / ours.norm(dim=1, keepdim=True).clamp_min(1e-30)
        unit = unit + above[:, None] * theirs / theirs.norm(dim=1, keepdim=True).clamp_min(1e-30)
        return unit / unit.norm(dim=1, keepdim=True).clamp_min(1e-30) @ self.table.T / noise


def telling(leak: Leak, labels: Sequence[int], length: int, precision: dict[str, float]) -> tuple[Piece, ...]:
    """The exposed pieces that hold nearly all there is to learn, as any sentence's gradient shows; loudest first."""
    clean = gradient_of(leak.model, [leak.model.blank(length)], labels, leak.pieces)
    loudness = {piece: precision[piece.name] * float(clean[piece.name].square().sum()) for piece in leak.pieces}
    kept, told, total = list[Piece](), 0.0, sum(loudness.values())
    for piece in sorted(leak.pieces, key=lambda piece: -loudness[piece]):
        if told >= TELLING * total:
            break
        kept.append(piece)
        told += loudness[piece]
    if any(piece.part == "word" for piece in kept):  # its rows are told by the places'
        kept += [piece for piece in leak.pieces if piece.part == "position" and piece not in kept]
    return tuple(kept)


def nats_of(leak: Leak, gradient: Gradient, labels: Sequence[int], length: int) -> float | None:
    """The evidence for the one sentence that has this gradient; None where there is no noise to weigh it by."""
    if not leak.veiled or leak.dropout or leak.batch > 1 or leak.sparse:
        return None
    precision = {piece.name: leak.blur(piece) ** -2 for piece in leak.pieces}
    dot = square = 0.0
    for piece in telling(leak, labels, length, precision):
        ours, leaked = gradient[piece.name], leak.gradient[piece.name]
        dot += precision[piece.name] * float((ours * leaked).sum())
        square += precision[piece.name] * float(ours.square().sum())
    return max(dot, 0.0) ** 2 / (2 * max(square, 1e-30))
