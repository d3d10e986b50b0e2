"""A family of its own: two layers that look back only, trained on the next word. All that a new one takes."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo.victim.anatomy import NONE, Anatomy, Attention, FeedForward, Masks, masked, mixed
from demo.victim.weights import Weights

DRAWN = Weights("normal", 0.3)


class Layer(nn.Module):
    def __init__(self, hidden: int, ffn: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.join = (nn.Linear(hidden, hidden) for _ in range(4))
        self.widen, self.narrow = nn.Linear(hidden, ffn), nn.Linear(ffn, hidden)


class Toy(Anatomy):
    """No norms, no marks at the ends, an output table of its own."""

    PARTS: ClassVar[Mapping[str, str]] = {
        "query": "query",
        "key": "key",
        "value": "value",
        "attention-output": "join",
        "ffn-in": "widen",
        "ffn-out": "narrow",
    }
    TABLES: ClassVar[Mapping[str, str]] = {"word": "table", "position": "order"}
    HEAD: ClassVar[Mapping[str, str]] = {"output": "output"}
    ADDED = ("position",)
    tasks = ("next-word",)
    labels, both_ways, longest, dropout = 0, False, 64, 0.1

    def __init__(self, config: dict[str, int]) -> None:
        super().__init__(config)
        hidden = config["hidden"]
        self.width, self.heads = hidden, config["heads"]
        self.table, self.order = nn.Embedding(config["vocabulary"], hidden), nn.Embedding(self.longest, hidden)
        self.layers = nn.ModuleList(Layer(hidden, config["ffn"]) for _ in range(config["layers"]))
        self.output = nn.Linear(hidden, config["vocabulary"], bias=False)

    @classmethod
    def shaped(cls, layers: int, hidden: int, heads: int, ffn: int, vocabulary: int) -> "Toy":
        return cls({"layers": layers, "hidden": hidden, "heads": heads, "ffn": ffn, "vocabulary": vocabulary})

    @classmethod
    def saved(cls, folder: Path) -> "Toy":
        raise FileNotFoundError(folder)

    @property
    def words(self) -> Tensor:
        return self.table.weight

    def places(self, places: slice | list[int]) -> Tensor:
        return self.order.weight[places]

    def placed(self, summed: Tensor) -> Tensor:
        return summed

    def attention(self, layer: int, cross: bool = False) -> Attention:
        own = self.layers[layer]
        return Attention(own.query, own.key, own.value, own.join, self.heads, (self.heads / self.width) ** 0.5)

    def feed_forward(self, layer: int) -> FeedForward:
        return FeedForward(self.layers[layer].widen, torch.tanh, self.layers[layer].narrow)

    def after_attention(
        self, layer: int, state: Tensor, mixed: Tensor, cross: bool = False, masks: Masks = NONE
    ) -> Tensor:
        return state + masked(self.attention(layer).output(mixed), masks, f"{layer}.attention-output")

    def after_feed_forward(self, layer: int, state: Tensor, widened: Tensor, masks: Masks = NONE) -> Tensor:
        return state + self.feed_forward(layer).narrow(widened)

    def _attended(self, embedded: Tensor, hidden: Tensor, layer: int, masks: Masks) -> Tensor:
        gathered = mixed(self.attention(layer), hidden, hidden, causal=True)
        return self.after_attention(layer, hidden, gathered, masks=masks)

    def _after(self, attended: Tensor, layer: int, masks: Masks) -> Tensor:
        return self.after_feed_forward(layer, attended, self.feed_forward(layer).wide(attended))

    def loss(self, words: Tensor, targets: Tensor, masks: Masks = NONE) -> Tensor:
        """The mean over all words but the first, each told by those before it."""
        logits = self.output(self.inputs(self.embed(words, masks), len(self.layers), masks)[:, :-1])
        each = F.cross_entropy(logits.mT, targets[:, 1:].expand(len(words), -1), reduction="none")
        return each.mean(1)

    def sites(self, tokens: int) -> dict[str, tuple[int, ...]]:
        hidden = (tokens, self.width)
        return {"embedding": hidden} | {f"{layer}.attention-output": hidden for layer in range(len(self.layers))}
