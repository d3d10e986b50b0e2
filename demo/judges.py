"""How an attack judges guesses by one exposed matrix, without ever building a gradient.

Two questions, two prices:

- `score(sentences)` — how far is each whole guess from the leak? One forward pass *up to the matrix*, no backward.
- `rank(sentence, words)` — which words would fit at each place? Answered for thousands of words at once by the *lens*:
  a linear map, fitted on random sentences, from a token's embedding to the network's state at that depth, corrected by
  the state that the current guess really has. The better the guess, the sharper the lens.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from demo.models import Model
from demo.subspace import View

FITTED_TOKENS = 4500  # tokens of random text that the lens is fitted on
RIDGE = 1e-2
BATCH = 64  # sentences per forward pass: larger ones leave the CPU's cache
CHUNK = 4096  # words ranked at once


class Judge(Protocol):
    """What the search needs of a view."""

    def score(self, sentences: Tensor) -> Tensor:
        """(rows, tokens) ids -> (rows,), 0 for the true sentence."""

    def rank(self, sentence: Tensor, words: Tensor) -> Tensor:
        """(tokens,) ids, (n,) ids -> (tokens, n): lower is a better fit at that place."""

    def shortlist(self, size: int) -> Tensor:
        """The words that may occur at all, best first."""


def frequent_ids(model: Model) -> Tensor:
    """Ordinary ids, the frequent first: marks and one-letter words, then the vocabulary, which BERT sorts by frequency."""
    tokens = model.tokens(model.ordinary)
    short = [i for i, token in enumerate(tokens) if token in {"a", "i", *".,?!'\"-;:()"}]
    long = [i for i, token in enumerate(tokens) if len(token) > 1]
    return model.ordinary[torch.tensor(short + long, device=model.device)]


@torch.no_grad()
def random_sentences(model: Model, rows: int, length: int, seed: int) -> Tensor:
    """Text-like noise (rows, length): words drawn by Zipf's law and, for variety, a share drawn evenly."""
    generator = torch.Generator().manual_seed(seed)
    frequent, ordinary = frequent_ids(model).cpu(), model.ordinary.cpu()
    zipf = 1 / torch.arange(20, 20 + len(frequent))
    ids = frequent[torch.multinomial(zipf, rows * length, True, generator=generator)].view(rows, length)
    even = torch.rand(rows, length, generator=generator) < 0.4
    ids[even] = ordinary[torch.randint(len(ordinary), (int(even.sum()),), generator=generator)]
    ids[:, 0], ids[:, -1] = model.first_last
    return ids.to(model.device)


@dataclass(frozen=True, eq=False)
class Lens:
    """stream vector ≈ embedded token · matrix + shift, whatever the context."""

    model: Model
    matrix: Tensor  # (hidden, hidden)
    shift: Tensor  # (hidden,)

    @classmethod
    @torch.no_grad()
    def fit(cls, model: Model, view: View, length: int, seed: int) -> "Lens":
        ids = random_sentences(model, max(64, FITTED_TOKENS // length), length, seed)
        embedded = model.net.embed(model.words[ids])
        stream = torch.cat([view.stream(model.net, part) for part in embedded.split(BATCH)])
        inputs, outputs = embedded[:, 1:-1].flatten(0, 1), stream[:, 1:-1].flatten(0, 1)
        inputs_mean, outputs_mean = inputs.mean(0), outputs.mean(0)
        inputs, outputs = inputs - inputs_mean, outputs - outputs_mean
        ridge = RIDGE * inputs.square().sum() / inputs.shape[1]
        gram = inputs.T @ inputs + ridge * torch.eye(inputs.shape[1], device=model.device)
        matrix = torch.linalg.solve(gram, inputs.T @ outputs)
        return cls(model, matrix, outputs_mean - inputs_mean @ matrix)

    def __call__(self, embedded: Tensor) -> Tensor:
        return embedded @ self.matrix + self.shift

    def at_each_place(self, words: Tensor, length: int) -> Tensor:
        """(n,) ids -> (length, n, hidden): each word's embedding at each place, seen through the lens."""
        tables = self.model.net.embeddings
        places = tables.position_embeddings.weight[:length] + tables.token_type_embeddings.weight[0]
        return self(tables.LayerNorm(self.model.words[words] + places[:, None]))


class SpanJudge:
    """Judges by a subspace that all tokens' features share.

    A guess is right when its features span the very subspace of the leak. That asks two things: each feature lies in it
    (else the word is wrong), and together they cover it (else a word is repeated where another belongs). The second is
    what keeps a search from filling a sentence with its most conspicuous word.
    """

    DAMPING = 1e-3  # share of a feature's energy below which a direction counts as not covered
    LENS_DAMPING = 0.05  # the same for the lens, whose vectors are only about right

    def __init__(self, model: Model, view: View, length: int, seed: int) -> None:
        self.model, self.view, self.length = model, view, length
        self.lens = Lens.fit(model, view, length, seed)
        self._places: tuple[Tensor, Tensor] | None = None

    @torch.no_grad()
    def score(self, sentences: Tensor) -> Tensor:
        return torch.cat([self._distance(self._stream(part)) for part in sentences.split(BATCH)])

    def _stream(self, sentences: Tensor) -> Tensor:
        return self.view.stream(self.model.net, self.model.net.embed(self.model.words[sentences]))

    def _distance(self, stream: Tensor) -> Tensor:
        total = torch.zeros(len(stream), device=stream.device)
        identity = torch.eye(self.length, device=stream.device)
        for features, basis in zip(self.view.features(self.model.net, stream), self.view.bases, strict=True):
            if self.view.centred:
                features = features - features.mean(1, keepdim=True)
            inside = features @ basis  # (rows, tokens, rank)
            energy = features.square().sum(-1)
            damping = self.DAMPING * energy.mean(1)[:, None, None] * identity
            covered = torch.linalg.solve(features @ features.mT + damping, inside @ inside.mT)
            total += 1 - covered.diagonal(dim1=1, dim2=2).sum(1) / basis.shape[1]
            if basis.shape[1] + self.view.centred == self.length:  # else the basis is only a part of their span
                total += (1 - inside.square().sum(-1) / energy).mean(1)
        return total / len(self.view.bases)

    @torch.no_grad()
    def rank(self, sentence: Tensor, words: Tensor) -> Tensor:
        """How far each word's feature, as far as the other tokens do not explain it, lies outside of the subspace."""
        stream = self._stream(sentence[None])[0]
        correction = stream - self.lens(self.model.net.embed(self.model.words[sentence]))
        candidates = self._seen_through_lens(words) + correction[:, None]
        total = torch.zeros(candidates.shape[:2], device=stream.device)
        ours, theirs = (self.view.features(self.model.net, x) for x in (stream, candidates))
        for rows, choices, basis in zip(ours, theirs, self.view.bases, strict=True):
            if self.view.centred:
                choices, rows = choices - rows.mean(0), rows - rows.mean(0)
            damping = self.LENS_DAMPING * rows.square().sum(1).mean()
            for place in range(self.length):
                others = torch.cat([rows[:place], rows[place + 1 :]])
                gram = others @ others.T + damping * torch.eye(len(others), device=rows.device)
                new = choices[place] - torch.linalg.solve(gram, others @ choices[place].T).T @ others
                total[place] += 1 - (new @ basis).square().sum(1) / (new.square().sum(1) + damping)
        return total / len(self.view.bases)

    def _seen_through_lens(self, words: Tensor) -> Tensor:
        if self._places is None or self._places[0] is not words:
            self._places = words, self.lens.at_each_place(words, self.length)
        return self._places[1]

    @torch.no_grad()
    def shortlist(self, size: int) -> Tensor:
        """The words whose lens image, at an average place, lies closest to the subspace."""
        tables = self.model.net.embeddings
        place = (tables.position_embeddings.weight[1 : self.length - 1] + tables.token_type_embeddings.weight[0]).mean(0)
        ids = random_sentences(self.model, BATCH, self.length, 0)
        ends = self._stream(ids)[:, 0].mean(0) if self.view.centred else None
        outside = []
        for words in self.model.ordinary.split(CHUNK):
            stream = self.lens(tables.LayerNorm(self.model.words[words] + place))
            stream = stream if ends is None else stream - ends  # differences to [CLS], which hardly varies
            residual = torch.zeros(len(words), device=stream.device)
            for features, basis in zip(self.view.features(self.model.net, stream), self.view.bases, strict=True):
                residual += 1 - (features @ basis).square().sum(1) / features.square().sum(1)
            outside.append(residual)
        return self.model.ordinary[torch.cat(outside).argsort()[:size]]
