"""Where places turn queries and keys, a query or key matrix of layer 0 tells the order of its words, exactly.

With G = Δᵀ X and the words' vectors X known, Δ follows: one row a word. A query is compared with keys of its own place
and those before it, a key with queries of its own place and those behind it, each turned by how far apart they stand:

    Δ_query(place s)  is a sum of  R(t − s) key(t) − key(s)      over places t < s, in each head
    Δ_key(place t)    is a sum of  R(s − t) query(s)             over places s ≥ t, in each head

So an order is built word by word, for keys from the last place back, for queries from the first on: the next word is
the one whose row is such a sum of those that stand already. Of a word that occurs twice it is a sum over both places.

    TurnedOrder(leak, piece, bag).orders()  # orders that explain every row
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from demo.attacker.leak import Leak
from demo.attacker.prefix_views import outside
from demo.turns import tick, ticking
from demo.victim.causal import Causal
from demo.victim.slices import Piece

EXPLAINED = 1e-6  # of a row's squared length may stick out; measured 1e-10 and less, of wrong ones 1e-2 and more
SPARE = 4  # dimensions of a head that must be left, or a sum explains anything
AGAIN = 2  # words in a row that may be the first of two occurrences, which nothing confirms yet


class TurnedOrder:
    """Rows of Δ, one for each word that occurs, and the queries or keys that they may be sums of."""

    def __init__(self, leak: Leak, piece: Piece, bag: Tensor) -> None:
        net = leak.model.net
        assert isinstance(net, Causal)
        self.net, self.asking, self.bag, self.ordinary = net, piece.part == "query", bag.tolist(), leak.model.ordinary
        self.told = leak.length - (0 if net.labels else 1) if leak.length else None
        vectors = net.attention_norm(0)(net.words[bag])
        rows = torch.linalg.lstsq(vectors.T.cpu().double(), leak.gradient[piece.name].T.cpu().double()).solution
        heads = net.heads if self.asking else net.key_heads
        self.rows = dict(zip(self.bag, rows.to(vectors).unflatten(1, (heads, -1)), strict=True))  # (heads, size) each

    def orders(self) -> Iterator[tuple[int, ...]]:
        """From the first word on, but for the last where it is only a target."""
        for again in range(AGAIN + 1):
            for start in self._starts():
                for order in self._built(start, {}, frozenset(), again):
                    yield order if self.asking else order[::-1]

    def _starts(self) -> Iterator[tuple[int, ...]]:
        """Nothing; or a first word, of which a query matrix does not tell, but for what the second reads of it."""
        if not self.asking:
            yield ()
            return
        matrix, groups = self.net.attention(0).key, self.net.key_heads
        words = self.net.attention_norm(0)(self.net.words[self.ordinary])
        keys = matrix(words).unflatten(1, (groups, 1, -1))  # a head of a group is compared with the group's key
        turned = self.net.turned(keys, -1)
        found = []
        for word, row in self.rows.items():
            tick()
            away = turned - self._heads("key", word)[:, None]
            row = row.unflatten(0, (groups, -1))
            dots = (away * row).sum(-1).square() / away.square().sum(-1).clamp_min(1e-30)
            left = 1 - dots.sum((1, 2)) / row.square().sum()
            found.append((float(left.min()), int(self.ordinary[left.argmin()])))
        yield from ((first,) for left, first in sorted(found) if left < EXPLAINED)

    def _built(
        self, order: tuple[int, ...], waiting: dict[int, list[int]], done: frozenset[int], again: int, lonely: int = 0
    ) -> Iterator[tuple[int, ...]]:
        """`waiting` are words of which one place was assumed, and where; `lonely`, how many of these end the order."""
        if not waiting and len(done) == len(self.bag):
            yield order
            return
        if self.told is not None and len(order) >= self.told:
            return
        open_words = [word for word in self.bag if word not in done]
        left = {word: self._left((*order, word), waiting.get(word, [])) for word in open_words}
        fitting = sorted((word for word in open_words if left[word] < EXPLAINED), key=lambda word: left[word])
        for word in fitting:
            rest = {other: places for other, places in waiting.items() if other != word}
            yield from self._built((*order, word), rest, done | {word}, again)
        if fitting or lonely >= again:
            return
        for word in open_words:
            places = {**waiting, word: [*waiting.get(word, []), len(order)]}
            yield from self._built((*order, word), places, done, again, lonely + 1)

    def _left(self, order: tuple[int, ...], earlier: Sequence[int]) -> float:
        """The share of the last word's row that no sum explains, if it stands there, and where it stood already."""
        tick()
        row = self.rows[order[-1]]
        spans = torch.cat([self._summed(order[: place + 1]) for place in (*earlier, len(order) - 1)], dim=1)
        if spans.shape[1] > spans.shape[2] - SPARE:
            return 1.0  # anything is a sum of so many
        left = [
            float(outside(one, basis)) * float(one.square().sum())
            for one, basis in zip(row, _orthonormal(spans), strict=True)
        ]
        return sum(left) / float(row.square().sum())

    def _summed(self, order: tuple[int, ...]) -> Tensor:
        """What the last word's row is a sum of: (heads, vectors, size)."""
        if not self.asking:
            each = [self._turned("query", word, len(order) - 1 - n) for n, word in enumerate(order)]
            return torch.cat([x.unflatten(0, (self.net.key_heads, -1)) for x in each], dim=1)
        own = self._heads("key", order[-1])
        each = [self._turned("key", word, n + 1 - len(order)) - own for n, word in enumerate(order[:-1])]
        together = torch.stack(each, dim=1) if each else own[:, None] * 0
        return together.repeat_interleave(self.net.heads // self.net.key_heads, dim=0)

    def _turned(self, part: str, word: int, places: int) -> Tensor:
        """A word's query or key in every head, as it looks from so many places away: (heads, size)."""
        return self.net.turned(self._heads(part, word)[:, None], places)[:, 0]

    def _heads(self, part: str, word: int) -> Tensor:
        attention = self.net.attention(0)
        matrix, heads = (attention.query, self.net.heads) if part == "query" else (attention.key, self.net.key_heads)
        return matrix(self.net.attention_norm(0)(self.net.words[word])).unflatten(0, (heads, -1))


@torch.no_grad()
def first_read(leak: Leak, piece: Piece, ids: Sequence[int]) -> int:
    """The first word of a sentence whose others are known: the second one's row of a query matrix of layer 0 is their
    keys' difference, in each head."""
    net = leak.model.net
    assert isinstance(net, Causal)
    vectors = net.entering(net.words[torch.tensor(ids, device=leak.model.device)][None], 0, "query")[0]
    solved = torch.linalg.lstsq(vectors[1:].T.cpu().double(), leak.gradient[piece.name].T.cpu().double()).solution
    matrix, row = net.attention(0).key, solved[0].to(vectors).unflatten(0, (net.heads, -1))
    second, left = matrix(vectors[1]).unflatten(0, (net.heads, -1)), []
    for some in ticking(leak.model.ordinary.split(4096)):
        away = matrix(net.entering(net.words[some][:, None], 0, "query")[:, 0]).unflatten(1, (net.heads, -1)) - second
        dots = (away * row).sum(-1).square() / away.square().sum(-1).clamp_min(1e-30)
        left.append(row.square().sum() - dots.sum(1))
    return int(leak.model.ordinary[torch.cat(left).argmin()])


def _orthonormal(vectors: Tensor) -> list[Tensor]:
    """(heads, vectors, size) -> the span of each head's: (size, rank)."""
    found = []
    for one in vectors.cpu().double():
        left, values, _ = torch.linalg.svd(one.T, full_matrices=False)
        found.append(left[:, values > 1e-9 * values.max().clamp_min(1e-30)].to(vectors))
    return found
