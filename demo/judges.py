"""How an attack judges guesses by one exposed matrix, without ever building a gradient.

Two questions, two prices:

- `score(sentences)` — how far is each whole guess from the leak? One forward pass *up to the matrix*, no backward.
- `rank(sentence, words)` — which words would fit at each place? Answered for thousands of words at once by the lens
  (`demo.lens`), corrected by the state that the current guess really has: the better the guess, the sharper the lens.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo.lens import BATCH, embedded_at, lens_at, random_sentences
from demo.models import Model
from demo.subspace import View

CHUNK = 4096  # words ranked at once
WHITEN = 1e-2  # share of the mean variance below which a direction counts as noise


class Judge(Protocol):
    """What the search needs of a view."""

    per_place: int  # how many of the best-ranked words are worth a forward pass at each place
    frequent: int  # and how many of the best-ranked frequent words besides: the lens sees little of function words

    def score(self, sentences: Tensor) -> Tensor:
        """(rows, tokens) ids -> (rows,), 0 for the true sentence."""

    def rank(self, sentence: Tensor, words: Tensor) -> Tensor:
        """(tokens,) ids, (n,) ids -> (tokens, n): lower is a better fit at that place."""

    def shortlist(self, size: int, sentence: Tensor | None = None) -> Tensor:
        """About `size` words that may occur at all; a guess lends them a context."""


class SpanJudge:
    """Judges by a subspace that all tokens' features share.

    A guess is right when its features span the very subspace of the leak. That asks two things: each feature lies in it
    (else the word is wrong), and together they cover it (else a word is repeated where another belongs). The second is
    what keeps a search from filling a sentence with its most conspicuous word.
    """

    per_place = 6
    DAMPING = 1e-3  # share of a feature's energy below which a direction counts as not covered
    LENS_DAMPING = 0.05  # the same for the lens, whose vectors are only about right

    def __init__(self, model: Model, view: View, length: int, seed: int) -> None:
        self.model, self.view, self.length = model, view, length
        # A head has few dimensions and ffn-out a bent space: the lens sees little of function words through either.
        self.frequent = 12 if len(view.bases) > 1 or view.part == "ffn-out" else 0
        self.lens = lens_at(model, view.layer, view.after_attention, length, seed)
        self._seen: tuple[Tensor, Tensor] | None = None  # the words ranked last, and what the lens sees of them

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
        if self._seen is None or self._seen[0] is not words:
            self._seen = words, self.lens(embedded_at(self.model, words, range(self.length)))
        candidates = self._seen[1] + correction[:, None]
        inside, energy = (torch.zeros(candidates.shape[:2], device=stream.device) for _ in range(2))
        ours, theirs = (self.view.features(self.model.net, x) for x in (stream, candidates))
        for rows, choices, basis in zip(ours, theirs, self.view.bases, strict=True):
            if self.view.centred:
                choices, rows = choices - rows.mean(0), rows - rows.mean(0)
            damping = self.LENS_DAMPING * rows.square().sum(1).mean()
            for place in range(self.length):
                others = torch.cat([rows[:place], rows[place + 1 :]])
                gram = others @ others.T + damping * torch.eye(len(others), device=rows.device)
                new = choices[place] - torch.linalg.solve(gram, others @ choices[place].T).T @ others
                inside[place] += (new @ basis).square().sum(1)
                energy[place] += new.square().sum(1) + damping
        return (
            1 - inside / energy
        )  # over all heads together: a mean of each head's share would count the faint ones too

    @torch.no_grad()
    def shortlist(self, size: int, sentence: Tensor | None = None) -> Tensor:
        """With a guess, the best words at each place; without, those closest to the subspace at an average place."""
        if sentence is not None:
            ranks = torch.cat([self.rank(sentence, words) for words in self.model.ordinary.split(CHUNK)], dim=1)
            return best_at_each_place(self.model.ordinary, ranks, size)
        tables = self.model.net.embeddings
        places = tables.position_embeddings.weight[1 : self.length - 1] + tables.token_type_embeddings.weight[0]
        stream = self.lens(tables.LayerNorm(self.model.words[self.model.ordinary] + places.mean(0)))
        if self.view.centred:  # differences to [CLS], whose state hardly varies
            stream = stream - self._stream(random_sentences(self.model, BATCH, self.length, 0))[:, 0].mean(0)
        outside = torch.zeros(len(stream), device=stream.device)
        for part, total in zip(stream.split(CHUNK), outside.split(CHUNK), strict=True):
            for features, basis in zip(self.view.features(self.model.net, part), self.view.bases, strict=True):
                total += 1 - (features @ basis).square().sum(1) / features.square().sum(1)
        return self.model.ordinary[outside.argsort()[:size]]


class ReadoutJudge:
    """Judges by the one vector that the classifier reads: all that the last layer's matrices and the pooler tell.

    The vector's direction is known exactly. How much a word moves it is estimated by running the last attention on what
    the lens sees of that word. Differences are weighed by how much random sentences vary in each direction
    (Mahalanobis), or the few loudest directions would drown the rest.
    """

    per_place = 18  # six by each of three ways to rank

    def __init__(self, model: Model, view: View, length: int, seed: int) -> None:
        self.model, self.view, self.length = model, view, length
        # Function words act on their neighbours more than on the vector itself, so many are tried; fewer per place in
        # long sentences, to keep an exploration short.
        self.frequent = min(60, max(12, 240 // (length - 1)))
        self.target = view.bases[0][:, -1]
        # The last attention before the site: the site's own layer's, or for query and pooler the one before.
        self.mixer = view.layer if view.part not in ("query", "pooler") else view.layer - 1
        self.lens = lens_at(model, self.mixer, False, length, seed)
        self.whitener = self._fit_whitener(seed)

    @torch.no_grad()
    def _fit_whitener(self, seed: int) -> Tensor:
        ids = random_sentences(self.model, 10 * BATCH, self.length, seed + 1)
        sites = torch.cat([self._site(self._before(part)) for part in ids.split(BATCH)])
        spread = sites - sites.mean(0)
        covariance = spread.T @ spread / len(spread)
        floor = WHITEN * covariance.diagonal().mean() * torch.eye(len(covariance), device=spread.device)
        return torch.linalg.inv(torch.linalg.cholesky(covariance + floor)).T  # (width, width)

    def _before(self, sentences: Tensor) -> Tensor:
        return self.model.net.inputs(self.model.net.embed(self.model.words[sentences]), self.mixer)

    def _site(self, before: Tensor) -> Tensor:
        """(rows, tokens, hidden) at the last attention's input -> (rows, width) at the exposed matrix."""
        block = self.model.net.block(self.mixer)
        attention = block.attention.self
        row = before[:, self.model.net.read_row]
        split = (attention.num_attention_heads, -1)
        query, key, value = attention.query(row), attention.key(before), attention.value(before)
        query, key, value = (x.unflatten(-1, split) for x in (query, key, value))
        weights = torch.einsum("rhd,rthd->rht", query, key) * attention.scaling
        mixed = torch.einsum("rht,rthd->rhd", weights.softmax(-1), value).flatten(1)
        return self._after(mixed, row)

    def _after(self, mixed: Tensor, row: Tensor) -> Tensor:
        block = self.model.net.block(self.mixer)
        if self.view.part == "attention-output":
            return mixed
        attended = block.attention.output(mixed, row)
        if self.view.part == "ffn-in":
            return attended
        inner = block.intermediate(attended)
        return inner if self.view.part == "ffn-out" else block.output(inner, attended)

    def _distance(self, sites: Tensor) -> Tensor:
        """The whitened part of the site vector that no multiple of the target explains."""
        target = self.target @ self.whitener
        sites = sites @ self.whitener
        along = sites @ target / target.square().sum()
        return (sites - along[..., None] * target).square().mean(-1)

    @torch.no_grad()
    def score(self, sentences: Tensor) -> Tensor:
        return torch.cat([self._distance(self._site(self._before(part))) for part in sentences.split(BATCH)])

    def rank(self, sentence: Tensor, words: Tensor, places: Sequence[int] = ()) -> Tensor:
        """How each word fits in each place (or only in some): the best of its standings by three estimates.

        One moves the token's own state as the lens sees it and lets its neighbours stay; one adds the neighbours'
        change to first order; one takes words alike the present one (live, lives). Each finds what the others miss.
        """
        with torch.enable_grad():
            embedded = self.model.net.embed(self.model.words[sentence])[None].requires_grad_(True)
            before = self.model.net.inputs(embedded, self.mixer)
            distance = self._distance(self._site(before)).sum()
            by_embedding, by_state = (g[0] for g in torch.autograd.grad(distance, [embedded, before]))
        places = places or range(1, self.length - 1)
        ranks = torch.zeros(self.length, len(words), device=words.device)
        with torch.no_grad():
            with_state = self._substitution(before[0])
            unlike = -self._alike(sentence, words)
            for place in places:
                step = embedded_at(self.model, words, [place])[0] - embedded[0, place]  # (n, hidden)
                own = step @ self.lens.matrix
                alone = with_state(place, before[0, place] + own)
                by_neighbours = step @ by_embedding[place] - own @ by_state[place]
                estimates = torch.stack([alone, alone + by_neighbours, unlike[place]])
                ranks[place] = 0.1 * estimates.argsort(1).argsort(1).amin(0).log1p()
        return ranks

    def _alike(self, sentence: Tensor, words: Tensor) -> Tensor:
        """The cosine between the word in each place and each word: (tokens, n)."""
        return F.normalize(self.model.words[sentence], dim=1) @ F.normalize(self.model.words[words], dim=1).T

    def _substitution(self, before: Tensor) -> Callable[[int, Tensor], Tensor]:
        """Prepares: if the token at a place had each of these states (n, hidden), the distances (n,)."""
        attention = self.model.net.block(self.mixer).attention.self
        row = before[self.model.net.read_row]

        def heads(linear: nn.Module, x: Tensor) -> Tensor:
            return linear(x).unflatten(-1, (attention.num_attention_heads, -1))

        query, keys, values = heads(attention.query, row), heads(attention.key, before), heads(attention.value, before)
        logits = (keys * query).sum(-1) * attention.scaling  # (tokens, heads)
        top = logits.max(0).values
        weight = (logits - top).exp()
        mixed, total = (weight[..., None] * values).sum(0), weight.sum(0)

        def distances(place: int, states: Tensor) -> Tensor:
            new = ((heads(attention.key, states) * query).sum(-1) * attention.scaling - top).exp()  # (n, heads)
            others = mixed - weight[place][:, None] * values[place]
            blend = others + new[..., None] * heads(attention.value, states)
            blend = blend / (total - weight[place] + new)[..., None]
            return self._distance(self._after(blend.flatten(1), row.expand(len(blend), -1)))

        return distances

    def shortlist(self, size: int, sentence: Tensor | None = None) -> Tensor:
        """The words that move the guess's vector (a blank one's, without) closest to the target.

        All words are ranked in the middle of the sentence, and the best few thousand of them in every place. Words
        alike those of the guess join them: being wrong by an ending is common.
        """
        sentence = self.model.blank(self.length) if sentence is None else sentence
        middle, chunks = self.length // 2, self.model.ordinary.split(CHUNK)
        best = [
            words[self.rank(sentence, words, [middle])[middle].argsort()[: CHUNK // len(chunks)]] for words in chunks
        ]
        words = torch.cat(best)
        alike = self._alike(sentence[1:-1], self.model.ordinary).topk(self.per_place, dim=1).indices.flatten()
        return torch.cat([best_at_each_place(words, self.rank(sentence, words), size), self.model.ordinary[alike]])


def best_at_each_place(words: Tensor, ranks: Tensor, size: int) -> Tensor:
    """(n,) words, (tokens, n) ranks -> about `size` words, as many from each inner place."""
    inner = ranks[1:-1]
    return words[inner.topk(min(size // len(inner), len(words)), dim=1, largest=False).indices].unique()
