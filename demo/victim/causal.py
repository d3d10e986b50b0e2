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

from torch import Tensor, nn
from torch.nn import functional as F

from demo.turns import tick
from demo.victim.anatomy import NONE, Anatomy, FeedForward, Masks, masked
from demo.victim.settled import Settled, by_head, gathered, joined

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
            keys.append(joined(before.keys[layer] if before else None, key))
            values.append(joined(before.values[layer] if before else None, value))
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
        query = by_head(query, self.heads)
        key, value = (by_head(x, self.key_heads) for x in (key, value))
        query, key = self.turned(query, start), self.turned(key, start)
        earlier = (before.keys[layer], before.values[layer]) if before else None
        mix = gathered(query, key, value, earlier, attention, masks, f"{layer}.attention-probabilities")
        return mix, key, value
