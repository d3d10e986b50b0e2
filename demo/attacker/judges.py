"""How an attack judges guesses by one exposed matrix, without ever building a gradient.

Two questions, two prices:

- `score(sentences)` — how far is each whole guess from the leak? One forward pass *up to the matrix*, no backward.
- `rank(sentence, words)` — which words would fit at each place? Answered for thousands of words at once by the lens
  (`lens`), corrected by the state that the current guess really has: the better the guess, the sharper the lens.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from demo.attacker.algebra import solve
from demo.attacker.lens import BATCH, at_once, embedded_at, lens_at, random_sentences
from demo.attacker.subspace import View, basis_of
from demo.turns import tick, ticking
from demo.victim.anatomy import Anatomy
from demo.victim.model import Model
from demo.victim.rough import rough

CHUNK = 4096  # words ranked at once
COORDINATES = 384  # of a wide matrix's, looked at to rank words


class SpanJudge:
    """Judges by a subspace that all tokens' features share.

    A guess is right when its features span the very subspace of the leak. That asks two things: each feature lies in it
    (else the word is wrong), and together they cover it (else a word is repeated where another belongs). The second is
    what keeps a search from filling a sentence with its most conspicuous word.

    In a batch all sentences share the subspace, and a guess is one of them: it has to cover what those found so far,
    `known`, do not.
    """

    per_place = 6  # how many of the best-ranked words are worth a forward pass at each place
    DAMPING = 1e-3  # share of a feature's energy below which a direction counts as not covered
    LENS_DAMPING = 0.05  # the same for the lens, whose vectors are only about right

    def __init__(self, model: Model, view: View, length: int, seed: int, total: int = 0, batch: int = 1) -> None:
        """`total` are the tokens of the whole batch; without, of the one sentence."""
        self.model, self.view, self.length = model, view, length
        # A basis of lower rank is only a part of the tokens' span: they need not lie in it.
        self.full = [basis.shape[1] + batch * view.centred >= (total or length) for basis in view.bases]
        self.known = [torch.empty(0, basis.shape[0], device=model.device) for basis in view.bases]
        # So many frequent words besides: through a head (few dimensions) or ffn-out (a bent space) the lens is dim.
        self.frequent = 12 if len(view.bases) > 1 or view.part == "ffn-out" else 0
        self.lens = lens_at(model, view.layer, view.after_attention, length, seed)
        self.glance, self.glance_bases = self._thinned(seed)
        self.glance_known = [basis.T[:0] for basis in self.glance_bases]
        self._seen: tuple[Tensor, Tensor] | None = None  # the words ranked last, and what the lens sees of them

    def _thinned(self, seed: int) -> tuple[Callable[[Tensor], list[Tensor]], tuple[Tensor, ...]]:
        """Features to rank words by, and the subspaces they lie in: of a wide matrix, some coordinates are enough.

        A subspace of few dimensions stays one when only some coordinates are looked at, and thirty thousand words times
        every place are many.
        """
        if self.view.part != "ffn-out":
            view, net = self.view, self.model.net  # not self: a judge that holds itself, and all it saw, is long kept
            return lambda stream: view.features(net, stream), view.bases
        (basis,), forward = self.view.bases, self.model.net.feed_forward(self.view.layer)
        dense, act = forward.widen, forward.bend
        some = torch.randperm(len(basis), generator=torch.Generator().manual_seed(seed))[:COORDINATES].to(basis.device)
        thin = torch.linalg.qr(basis[some]).Q
        return lambda stream: [act(F.linear(stream, dense.weight[some], dense.bias[some]))], (thin,)

    @torch.no_grad()
    def score(self, sentences: Tensor) -> Tensor:
        """How far guesses (rows, tokens) are; roughly, as wrong ones are much farther than that makes the true one."""
        net = rough(self.model.net)
        return torch.cat([self._distance(self._stream(part, net)) for part in sentences.split(at_once(self.length))])

    def _stream(self, sentences: Tensor, net: Anatomy | None = None) -> Tensor:
        return self.view.stream(net or self.model.net, self.model.net.embed(self.model.words[sentences]))

    def _distance(self, stream: Tensor) -> Tensor:
        total = torch.zeros(len(stream), device=stream.device)
        identity = torch.eye(self.length, device=stream.device)
        for features, basis, known, full in zip(
            self._features(stream), self.view.bases, self.known, self.full, strict=True
        ):
            inside = features @ basis  # (rows, tokens, rank)
            energy = features.square().sum(-1)
            damping = self.DAMPING * energy.mean(1)[:, None, None] * identity
            if full:
                total += (1 - inside.square().sum(-1) / energy).mean(1)
            if len(known):
                features = features - (features @ known.T) @ known
                inside = features @ basis
            covered = solve(features @ features.mT + damping, inside @ inside.mT)
            rank = min(basis.shape[1], self.length - self.view.centred)
            total += 1 - covered.diagonal(dim1=1, dim2=2).sum(1) / rank
        return total / len(self.view.bases)

    def _features(self, stream: Tensor) -> list[Tensor]:
        """(rows, tokens, hidden) -> each group's (rows, tokens, width)."""
        features = self.view.features(self.model.net, stream)
        return [x - x.mean(1, keepdim=True) for x in features] if self.view.centred else features

    @torch.no_grad()
    def outside(self, sentence: Tensor) -> float:
        """The largest share of any token's feature that lies outside of the subspace: rounding, for a true sentence."""
        found = [
            1 - (x @ basis).square().sum(-1) / x.square().sum(-1)
            for x, basis in zip(self._features(self._stream(sentence[None])), self.view.bases, strict=True)
        ]
        return float(torch.stack(found).max())

    @torch.no_grad()
    def learn(self, sentences: Sequence[Tensor]) -> None:
        """These sentences of the batch are found: the next one has to cover what they leave."""
        streams = [self._stream(ids[None]) for ids in sentences]
        self.known = [_rows_of(parts) for parts in zip(*map(self._features, streams), strict=True)]
        glances = [[x - x.mean(1, keepdim=True) * self.view.centred for x in self.glance(s)] for s in streams]
        self.glance_known = [_rows_of(parts) for parts in zip(*glances, strict=True)]

    @torch.no_grad()
    def rank(self, sentence: Tensor, words: Tensor) -> Tensor:
        """How far each word's feature, as far as the other tokens do not explain it, lies outside of the subspace."""
        stream = self._stream(sentence[None])[0]
        correction = stream - self.lens(self.model.net.embed(self.model.words[sentence]))
        if self._seen is None or self._seen[0] is not words:
            seen = [self.lens(embedded_at(self.model, words, [place])[0]) for place in ticking(range(self.length))]
            self._seen = words, torch.stack(seen)
        ours = self.glance(stream)
        return torch.stack([self._outside(place, ours, correction) for place in ticking(range(self.length))])

    def _outside(self, place: int, ours: list[Tensor], correction: Tensor) -> Tensor:
        """(words,): the ranks of the words seen last, at one place; `ours` are the guess's own features by group."""
        assert self._seen is not None
        theirs = self.glance(self._seen[1][place] + correction[place])
        inside, energy = (torch.zeros(len(theirs[0]), device=correction.device) for _ in range(2))
        for rows, choices, basis, known in zip(ours, theirs, self.glance_bases, self.glance_known, strict=True):
            if self.view.centred:
                choices, rows = choices - rows.mean(0), rows - rows.mean(0)
            damping = self.LENS_DAMPING * rows.square().sum(1).mean()
            known = known * rows.square().sum(1).mean().sqrt()  # as long as the others, or damping would forget them
            others = torch.cat([rows[:place], rows[place + 1 :], known])
            gram = others @ others.T + damping * torch.eye(len(others), device=rows.device)
            new = choices - solve(gram, others @ choices.T).T @ others
            inside += (new @ basis).square().sum(1)
            energy += new.square().sum(1) + damping
        return 1 - inside / energy  # over all heads together: a mean of each one's share would count the faint ones too

    @torch.no_grad()
    def shortlist(self, size: int, sentence: Tensor | None = None) -> Tensor:
        """With a guess, the best words at each place; without, those closest to the subspace at an average place."""
        if sentence is not None:
            ranks = torch.cat([self.rank(sentence, words) for words in self.model.ordinary.split(CHUNK)], dim=1)
            return best_at_each_place(self.model.ordinary, ranks, size)
        place = self.model.net.places(self.model.inside(self.length)).mean(0)
        stream = self.lens(self.model.net.placed(self.model.words[self.model.ordinary] + place))
        if self.view.centred:  # differences to the first token, whose state hardly varies
            stream = stream - self._stream(random_sentences(self.model, BATCH, self.length, 0))[:, 0].mean(0)
        outside = torch.zeros(len(stream), device=stream.device)
        for part, total in zip(stream.split(CHUNK), outside.split(CHUNK), strict=True):
            tick()
            for features, basis in zip(self.glance(part), self.glance_bases, strict=True):
                total += 1 - (features @ basis).square().sum(1) / features.square().sum(1)
        return self.model.ordinary[outside.argsort()[:size]]


def _rows_of(parts: Sequence[Tensor]) -> Tensor:
    """Sentences' features, (1, tokens, width) each -> orthonormal rows (dimensions, width) that span them all."""
    return basis_of(torch.cat([part[0] for part in parts])).T


def best_at_each_place(words: Tensor, ranks: Tensor, size: int) -> Tensor:
    """(n,) words, (tokens, n) ranks -> about `size` words, as many from each inner place."""
    inner = ranks[1:-1]
    return words[inner.topk(min(size // len(inner), len(words)), dim=1, largest=False).indices].unique()
