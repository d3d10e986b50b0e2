"""Which words would fit in a place, where one vector is all that is known: the whole vocabulary, sifted in moments.

Put another word in a place, and the last attention mixes another state into the vector. The lens (`lens`) says
about which state; `Substitution` mixes it in; `Alphabet` does so for thirty thousand words by a linear sketch. For the
hundreds that are left, `Streams` says far better which state: it takes that one token through the layers.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from demo.attacker.judges import CHUNK
from demo.attacker.lens import Lens
from demo.turns import tick
from demo.victim.anatomy import Anatomy
from demo.victim.model import Model
from demo.victim.rough import rough

SKETCH = 96  # random directions that the vocabulary is sifted in


class Substitution:
    """What is seen if the token at one place had another state, and all others stayed."""

    def __init__(
        self, attention: Any, before: Tensor, row: Tensor, see: Callable[[Tensor, Tensor], Tensor], seed: int
    ) -> None:
        """`before` (tokens, hidden) goes into the attention, whose `row` asks; `see` takes mixtures (n, hidden) and
        rows (n, hidden) to vectors (n, width) that are zero for the truth."""
        self.attention, self.before, self.row, self.see, self.seed = attention, before, row, see, seed
        self.query = self.heads(attention.query(row))
        self.values = self.heads(attention.value(before))
        logits = self.logits(self.heads(attention.key(before)))  # (tokens, heads)
        self.top = logits.max(0).values
        self.weight = (logits - self.top).exp()
        self.mixed, self.total = (self.weight[..., None] * self.values).sum(0), self.weight.sum(0)

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.attention.heads, -1))

    def logits(self, keys: Tensor) -> Tensor:
        return (keys * self.query).sum(-1) * self.attention.scaling

    def blending(self, place: int, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(n, heads) logits of the new token -> the others' values (heads, size), their share and the new one's."""
        new = (logits - self.top).exp()
        share = 1 / (self.total - self.weight[place] + new)
        return self.mixed - self.weight[place][:, None] * self.values[place], share, new * share

    def distances(self, place: int, states: Tensor) -> Tensor:
        """(n, hidden) states -> (n,)."""
        others, share, gained = self.blending(place, self.logits(self.heads(self.attention.key(states))))
        values = self.heads(self.attention.value(states))
        mixture = (share[..., None] * others + gained[..., None] * values).flatten(1)
        return self.see(mixture, self.row.expand(len(mixture), -1)).square().mean(-1)

    @functools.cached_property
    def slope(self) -> tuple[Tensor, Tensor]:
        """What is seen, as a linear function of the mixture and sketched: (sketch,) + mixture · (hidden, sketch).

        Random directions keep lengths, so the squares of the sketch add up to about the distance.
        """
        here = (self.mixed / self.total[:, None]).flatten()
        width = self.see(here[None], self.row[None]).shape[1]
        sketch = torch.randn(width, SKETCH, generator=torch.Generator().manual_seed(self.seed)).to(here)
        sketch /= (SKETCH * width) ** 0.5

        def seen(mixture: Tensor) -> Tensor:
            return self.see(mixture[None], self.row[None])[0] @ sketch

        jacobian = torch.func.jacrev(seen)(here).T  # (hidden, sketch)
        return seen(here) - here @ jacobian, jacobian


class Streams:
    """What other words in one place of a guess would become, layer by layer, if all the other tokens stayed.

    One token goes through the network instead of a sentence. Of what a word does to the vector that is read (weighed as
    guesses are, in the median), that tells about two thirds, where the lens tells a tenth.
    """

    def __init__(self, net: Anatomy, embedded: Tensor, layers: int) -> None:
        """`embedded` (tokens, hidden) is the guess; words are taken through so many layers."""
        self.net, self.others = rough(net), []
        for layer, state in enumerate(self.net.states(embedded[None], layers)):
            attention = self.net.attention(layer)
            split = (attention.heads, -1)
            self.others.append(tuple(part(state[0]).unflatten(-1, split) for part in (attention.key, attention.value)))

    @torch.no_grad()
    def carried(self, place: int, embedded: Tensor) -> Tensor:
        """(n, hidden) embedded words for a place -> (n, hidden) their states."""
        state = embedded
        for layer, (keys, values) in enumerate(self.others):  # each (tokens, heads, size)
            tick()
            own, split = self.net.attention(layer), keys.shape[1:]
            query, key, value = (part(state).unflatten(-1, split) for part in (own.query, own.key, own.value))
            logits = torch.einsum("nhs,ths->nht", query, keys)
            logits[..., place] = (query * key).sum(-1)
            weights = (logits * own.scaling).softmax(-1)
            mixed = torch.einsum("nht,ths->nhs", weights, values) + weights[..., place, None] * (value - values[place])
            attended = self.net.after_attention(layer, state, mixed.flatten(1))
            state = self.net.after_feed_forward(layer, attended, self.net.feed_forward(layer).wide(attended))
        return state


@dataclass(frozen=True, eq=False)
class Alphabet:
    """The whole vocabulary as the lens and the last attention see it, prepared so that sifting it is quick.

    A word's embedding is norm(word + place): linear but for the norm, which is cheap to compute. So all products
    with the word vectors are taken once and serve every place.
    """

    words: Tensor  # (vocabulary, hidden), centred
    energy: Tensor  # (vocabulary,)
    values: Tensor  # (vocabulary, hidden): what the value matrix makes of them
    places: Tensor  # (places, hidden), centred
    to_state: Tensor  # (hidden, hidden): centred word or place, over its norm -> change of state
    norm: Any  # of word + place
    lens: Lens

    @classmethod
    @torch.no_grad()
    def of(cls, model: Model, lens: Lens, layer: int) -> "Alphabet":
        norm, attention = model.net.embedding_norm, model.net.attention(layer)
        words = model.words[model.ordinary]
        places = model.net.places(slice(None))
        words, places = words - words.mean(1, keepdim=True), places - places.mean(1, keepdim=True)
        to_state = norm.weight[:, None] * lens.matrix
        values = words @ (to_state @ attention.value.weight.T)
        return cls(words, words.square().mean(1), values, places, to_state, norm, lens)

    @torch.no_grad()
    def sift(self, swap: Substitution, embedded: Tensor, by_neighbours: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """For each inner place: about the distance if each word stood there alone, and what its neighbours add.

        `embedded` (tokens, hidden) is the guess; `by_neighbours` the slope of the distance by it through the others.
        """
        attention, inner = swap.attention, slice(1, len(embedded) - 1)
        where, gain = self.places[: len(embedded)], self.norm.weight * by_neighbours  # (tokens, hidden)
        to_value = self.to_state @ attention.value.weight.T
        asked = swap.query[..., None] * swap.heads(attention.key.weight.T).permute(1, 2, 0)  # (heads, size, hidden)
        to_logits = asked.sum(1).T * attention.scaling  # (hidden, heads)
        by_word, key_bias = self.to_state @ to_logits, swap.logits(swap.heads(attention.key.bias))
        start, slope = swap.slope
        by_head = swap.heads(slope.T).permute(1, 2, 0)  # (heads, size, sketch)
        products = self.words @ torch.cat([by_word, where[inner].T, gain[inner].T], dim=1)
        logits, *rest = products.split([by_word.shape[1], len(where) - 2, len(where) - 2], dim=1)
        for place, cross, pull in zip(range(1, len(where) - 1), *(x.T for x in rest), strict=True):
            here = where[place]
            spread = (self.energy + here.square().mean() + 2 * cross / len(here) + self.norm.eps).rsqrt()
            steady = swap.before[place] + (self.norm.bias - embedded[place]) @ self.lens.matrix  # what all words share
            new = spread[:, None] * (logits + here @ by_word) + steady @ to_logits + key_bias
            others, share, gained = swap.blending(place, new)
            scaled = gained * spread[:, None]
            # The mixture is a sum over heads of the others' part and the new token's: constant, by place and by word.
            parts = swap.heads(torch.stack([others.flatten(), attention.value(steady), here @ to_value]))
            known = torch.einsum("phs,hsk->phk", parts, by_head).flatten(0, 1)
            seen = start + torch.cat([share, gained, scaled], dim=1) @ known
            for first in range(0, len(seen), CHUNK):
                rows = slice(first, first + CHUNK)
                seen[rows].addmm_((swap.heads(self.values[rows]) * scaled[rows, :, None]).flatten(1), slope)
            yield seen.square().sum(1), spread * (pull + here @ gain[place])
