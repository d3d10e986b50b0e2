"""What decoders share: layers that look back only, and read what a norm makes of the state they add to.

As no token sees those after it, a sentence can be put through word by word. What is settled is kept:

    before = net.settled(words)                  # of (1, tokens, hidden) word vectors
    net.entering(more, 3, "key", before)         # (rows, 1, hidden) -> what layer 3's key matrix reads of each

The loss asks for the next word, at every place; or, in the twin `net.told_by("label")`, for a label of the last token.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo.turns import tick
from demo.victim.anatomy import NONE, Anatomy, Attention, FeedForward, Masks, masked

LABELS = 2
BEFORE_ATTENTION = ("query", "key", "value")


@dataclass(frozen=True)
class Normed(FeedForward):
    """It reads a norm of the state; a gate, where there is one, multiplies what the widening matrix computes."""

    norm: Any = None
    gate: Any = None

    def wide(self, state: Tensor) -> Tensor:
        return self.widened(self.norm(state))

    def widened(self, normal: Tensor) -> Tensor:
        up = self.widen(normal)
        return self.bend(up) if self.gate is None else self.bend(self.gate(normal)) * up


@dataclass(frozen=True, eq=False)
class Settled:
    """A prefix's keys and values in every layer: (key heads, tokens, size); or several', row by row."""

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]

    @property
    def tokens(self) -> int:
        return self.keys[0].shape[-2]

    def of(self, rows: Tensor) -> "Settled":
        """Of several prefixes, the one that each row follows."""
        return Settled(tuple(x[rows] for x in self.keys), tuple(x[rows] for x in self.values))


class Causal(Anatomy):
    """A family says what its norms and matrices are called, and how places get in."""

    both_ways = False
    tasks = ("next-word", "label")
    read_row = -1  # the only token that has seen them all
    tied: bool  # whether the output matrix is the word table
    key_heads: int
    CLASSIFIER: ClassVar[Mapping[str, str]] = {"final-norm": "norm", "classifier": "classifier"}
    labels = 0
    norm: nn.Module
    output: nn.Linear  # where it is not tied
    classifier: nn.Linear

    def attention_norm(self, layer: int) -> Any:
        raise NotImplementedError

    def turned(self, x: Tensor, start: int) -> Tensor:
        """Queries or keys (rows, heads, tokens, size) as their places turn them; the first stands at `start`."""
        return x

    def logits(self, state: Tensor) -> Tensor:
        """What the last layer hands on -> the next word's."""
        normal = self.norm(state)
        return F.linear(normal, self.words) if self.tied else self.output(normal)  # called, as attacks hook into it

    @property
    def output_table(self) -> Tensor:
        """(vocabulary, hidden)"""
        return self.words if self.tied else self.output.weight

    def told_by(self, task: str) -> "Causal":
        """The same network, trained on another task; all numbers are shared."""
        labels = LABELS if task == "label" else 0
        if labels == self.labels:
            return self
        if task not in self.kept:
            twin = copy.copy(self)
            for own in ("trained", "kept"):
                twin.__dict__.pop(own, None)
            twin.labels = labels
            if labels:
                twin.HEAD = self.CLASSIFIER  # type: ignore[misc]
            self.kept[task] = twin
        return self.kept[task]  # type: ignore[return-value]

    def loss(self, words: Tensor, targets: Tensor, masks: Masks = NONE) -> Tensor:
        """The mean over all words but the first, each told by those before it; or the label's."""
        state = self.inputs(self.embed(words, masks), len(self.layers), masks)
        if self.labels:
            return F.cross_entropy(self.label(state[:, -1]), targets, reduction="none")
        logits, targets = self.logits(state[:, :-1]), targets[:, 1:].expand(len(words), -1)
        # Word by word: over columns, torch sums a vocabulary's probabilities one after the other, to four digits only.
        each = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        return each.unflatten(0, targets.shape).mean(1)

    def label(self, state: Tensor, masks: Masks = NONE) -> Tensor:
        return self.classifier(self.norm(state))

    def sites(self, tokens: int) -> dict[str, tuple[int, ...]]:
        hidden, square = (tokens, self.width), (self.heads, tokens, tokens)
        found: dict[str, tuple[int, ...]] = {"embedding": hidden}
        for layer in range(len(self.layers)):
            found |= {f"{layer}.attention-probabilities": square, f"{layer}.attention-output": hidden}
            found[f"{layer}.ffn-output"] = hidden
        return found

    def settled(self, words: Tensor, before: Settled | None = None, layers: int | None = None) -> Settled:
        """The prefix (1, tokens, hidden) after what was settled before it, as far as so many layers; or several."""
        return self.settling(words, before, layers)[0]

    def settling(
        self, words: Tensor, before: Settled | None = None, layers: int | None = None
    ) -> tuple[Settled, list[Tensor]]:
        """The same, and what each of these layers and the one behind them reads of the new words."""
        states, keys, values = [self._start(words, before)], [], []
        for layer in range(len(self.layers) if layers is None else layers):
            mix, key, value = self._mixed(self.attention_norm(layer)(states[-1]), layer, before)
            keys.append(_joined(before.keys[layer] if before else None, key))
            values.append(_joined(before.values[layer] if before else None, value))
            states.append(self._after(self.after_attention(layer, states[-1], mix), layer, NONE))
        return Settled(tuple(keys), tuple(values)), states

    def entering(self, words: Tensor, layer: int, part: str, before: Settled | None = None) -> Tensor:
        """What a matrix reads of each row's new words (rows, tokens, hidden), after the same settled ones."""
        return self.matrix_input(self.state(words, layer, before), layer, part, before)

    def state(self, words: Tensor, layer: int, before: Settled | None = None) -> Tensor:
        """What a layer reads of new words after settled ones."""
        return self.onward(self._start(words, before), 0, layer, before)

    def onward(self, state: Tensor, first: int, last: int, before: Settled | None = None) -> Tensor:
        """From what layer `first` reads to what layer `last` reads."""
        for layer in range(first, last):
            state = self.through(state, layer, before)
        return state

    def matrix_input(self, state: Tensor, layer: int, part: str, before: Settled | None = None) -> Tensor:
        """What a matrix reads, of what its layer reads; the output matrix stands behind all layers."""
        if layer == len(self.layers):
            return self.norm(state)
        normal = self.attention_norm(layer)(state)
        if part in BEFORE_ATTENTION:
            return normal
        mix, _, _ = self._mixed(normal, layer, before)
        if part == "attention-output":
            return mix
        attended = self.after_attention(layer, state, mix)
        feed_forward: Any = self.feed_forward(layer)
        return feed_forward.wide(attended) if part == "ffn-out" else feed_forward.norm(attended)

    def through(self, state: Tensor, layer: int, before: Settled | None = None) -> Tensor:
        """What the next layer reads."""
        tick()
        mix, _, _ = self._mixed(self.attention_norm(layer)(state), layer, before)
        return self._after(self.after_attention(layer, state, mix), layer, NONE)

    def after_attention(
        self, layer: int, state: Tensor, mixed: Tensor, cross: bool = False, masks: Masks = NONE
    ) -> Tensor:
        return state + masked(self.attention(layer).output(mixed), masks, f"{layer}.attention-output")

    def after_feed_forward(self, layer: int, state: Tensor, widened: Tensor, masks: Masks = NONE) -> Tensor:
        return state + masked(self.feed_forward(layer).narrow(widened), masks, f"{layer}.ffn-output")

    def _start(self, words: Tensor, before: Settled | None) -> Tensor:
        """What layer 0 reads of words that stand behind settled ones."""
        start = before.tokens if before else 0
        return self.placed(words + self.places(slice(start, start + words.shape[1])))

    def _attended(self, embedded: Tensor, hidden: Tensor, layer: int, masks: Masks) -> Tensor:
        mix, _, _ = self._mixed(self.attention_norm(layer)(hidden), layer, None, masks=masks)
        return self.after_attention(layer, hidden, mix, masks=masks)

    def _after(self, attended: Tensor, layer: int, masks: Masks) -> Tensor:
        return self.after_feed_forward(layer, attended, self.feed_forward(layer).wide(attended), masks)

    def _mixed(
        self, normal: Tensor, layer: int, before: Settled | None, masks: Masks = NONE
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What the heads gather (rows, tokens, width), and the new keys and values."""
        attention, start = self.attention(layer), before.tokens if before else 0
        query, key, value = attention.query(normal), attention.key(normal), attention.value(normal)
        query = _by_head(query, self.heads)
        key, value = (_by_head(x, self.key_heads) for x in (key, value))
        query, key = self.turned(query, start), self.turned(key, start)
        earlier = (before.keys[layer], before.values[layer]) if before else None
        mix = _gathered(query, key, value, earlier, attention, masks, f"{layer}.attention-probabilities")
        return mix, key, value


def _gathered(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    earlier: tuple[Tensor, Tensor] | None,
    attention: Attention,
    masks: Masks,
    site: str,
) -> Tensor:
    """(rows, heads, tokens, size) each; settled keys and values (heads, tokens, size) are the same for all rows."""
    rows, heads, tokens, _ = query.shape
    groups = key.shape[1]
    asked = query.unflatten(1, (groups, -1))  # several heads ask the same keys
    logits = asked @ key[:, :, None].mT * attention.scaling
    logits = logits + torch.full((tokens, tokens), -torch.inf, device=query.device, dtype=query.dtype).triu(1)
    if earlier is None:
        weights = masked(logits.softmax(-1).flatten(1, 2), masks, site).unflatten(1, (groups, -1))
        return _side_by_side(weights @ value[:, :, None])
    keys, values = earlier
    if keys.dim() == 4:
        old, new = _weights(asked @ keys[:, :, None].to(query.dtype).mT * attention.scaling, logits)
        return _side_by_side(old @ values[:, :, None].to(query.dtype) + new @ value[:, :, None])
    # Rows beside one another, so that what they share is multiplied once and never copied.
    keys, values = keys.to(query.dtype), values.to(query.dtype)  # a rough network may follow a prefix settled exactly
    flat = asked.permute(1, 0, 2, 3, 4).flatten(1, 3)
    before = (flat @ keys.mT * attention.scaling).unflatten(1, (rows, heads // groups, tokens)).transpose(0, 1)
    old, new = _weights(before, logits)
    shared = (old.transpose(0, 1).flatten(1, 3) @ values).unflatten(1, (rows, heads // groups, tokens))
    return _side_by_side(shared.transpose(0, 1) + new @ value[:, :, None])


def _by_head(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _side_by_side(mix: Tensor) -> Tensor:
    """(rows, groups, heads of a group, tokens, size) -> (rows, tokens, width)"""
    return mix.flatten(1, 2).transpose(1, 2).flatten(2)


def _weights(before: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Of what came before, and of the new words."""
    old, new = torch.cat([before, own], dim=-1).softmax(-1).split([before.shape[-1], own.shape[-1]], dim=-1)
    return old, new


def _joined(before: Tensor | None, more: Tensor) -> Tensor:
    """One prefix's has no rows, as all that follow it share it."""
    more = more[0] if len(more) == 1 else more
    return more if before is None else torch.cat([before, more], dim=-2)
