"""What an attack may ask of any victim, and all it may ask: a stack of layers of which any part can be run.

A family (`bert`, …) says how its layers compute and what their matrices are called; what follows from that is here.

    net.embed(words)                what layer 0 reads of word vectors (rows, tokens, hidden)
    net.inputs(embedded, 3)         what layer 3 reads
    net.attended(embedded, 3)       what its feed-forward half reads
    net.loss(words, targets)        (rows,)
    net.parts()["3.query"]          one matrix, by the name that is the same in every family
"""

import copy
import threading
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo.turns import tick

# Dropout in train mode: site -> what the numbers there are multiplied by, 0 if dropped and 1 / (1 - rate) if kept.
Masks = Mapping[str, Tensor]
NONE: Masks = {}  # eval mode


@dataclass(frozen=True)
class Attention:
    """One attention block's matrices, and how its heads share them."""

    query: Any  # linear, as all four are; in bfloat16 in a rough network
    key: Any
    value: Any
    output: Any
    heads: int
    scaling: float  # of the products of queries and keys, before the softmax


@dataclass(frozen=True)
class FeedForward:
    """The half of a layer that looks at one token at a time: widen, bend, narrow."""

    widen: Any
    bend: Any  # the activation
    narrow: Any

    def wide(self, state: Tensor) -> Tensor:
        """What the narrowing matrix reads."""
        return self.bend(self.widen(state))


class Anatomy(nn.Module):
    """A network without padding whose stages are called one by one. Dropout only by given masks."""

    # Our names -> the exact names of modules: inside a layer, before the layers, and after them.
    PARTS: ClassVar[Mapping[str, str]]
    TABLES: ClassVar[Mapping[str, str]]
    HEAD: ClassVar[Mapping[str, str]]
    ADDED: ClassVar[tuple[str, ...]] = ()  # the tables whose rows are added to a word's
    NORMS: ClassVar[tuple[type[nn.Module], ...]] = ()  # modules whose weight stretches what they have normalised

    decoder: int | None = None  # the layer that reads the sentence again and asks the layers before it, if one does
    tied: bool = False  # whether the table of words is also the matrix that the next word is told with
    both_ways: bool = True  # whether tokens see those after them too
    read_row: int = 0  # the token that the label is read from
    labels: int  # how many a sentence may have; 0: the next word is the target, at every place
    width: int
    heads: int
    longest: int  # sentence, in tokens
    dropout: float  # the rate that the family is trained with
    layers: nn.ModuleList

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.summed = nn.Identity()  # word and place together pass through here
        self.alone = threading.Lock()  # held by whoever hooks into the network: visitors share it

    @classmethod
    @abstractmethod
    def shaped(cls, layers: int, hidden: int, heads: int, ffn: int, vocabulary: int, **own: Any) -> "Anatomy":
        """One of that size, whose numbers are to be drawn; `own` is what only this family has."""

    @classmethod
    @abstractmethod
    def saved(cls, folder: Path) -> "Anatomy":
        """One with the numbers of a saved model."""

    @classmethod
    def ends(cls, tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids that every sentence begins and ends with, which are known."""
        return (), ()

    @property
    @abstractmethod
    def words(self) -> Tensor:
        """(vocabulary, hidden)"""

    @abstractmethod
    def places(self, places: slice | list[int]) -> Tensor:
        """What is added to any word there: (places, hidden)."""

    def located(self, words: Tensor) -> Tensor:
        """Word vectors (rows, tokens, hidden) + what is added at each place."""
        return words + self.places(slice(words.shape[-2]))

    @abstractmethod
    def placed(self, summed: Tensor) -> Tensor:
        """Word + place -> what layer 0 reads."""

    @property
    def embedding_norm(self) -> Any:
        """The norm of word + place, where there is one: its weight, bias and eps."""
        raise NotImplementedError

    def label(self, state: Tensor, masks: Masks = NONE) -> Tensor:
        """What the label is read from (rows, hidden) -> logits."""
        raise NotImplementedError

    @abstractmethod
    def attention(self, layer: int, cross: bool = False) -> Attention: ...

    @abstractmethod
    def feed_forward(self, layer: int) -> FeedForward: ...

    @abstractmethod
    def after_attention(
        self, layer: int, state: Tensor, mixed: Tensor, cross: bool = False, masks: Masks = NONE
    ) -> Tensor:
        """What the feed-forward half reads, of the layer's own input and what its heads have mixed."""

    @abstractmethod
    def after_feed_forward(self, layer: int, state: Tensor, widened: Tensor, masks: Masks = NONE) -> Tensor:
        """What the next layer reads, of this one's attended state and what its narrowing matrix reads."""

    @abstractmethod
    def loss(self, words: Tensor, targets: Tensor, masks: Masks = NONE) -> Tensor:
        """Each row's: (rows, tokens, hidden) word vectors, and (rows, labels) probabilities or (rows, tokens) ids."""

    @abstractmethod
    def _attended(self, embedded: Tensor, hidden: Tensor, layer: int, masks: Masks) -> Tensor:
        """What the layer's feed-forward half reads, where the layer reads `hidden`."""

    @abstractmethod
    def _after(self, attended: Tensor, layer: int, masks: Masks) -> Tensor:
        """What the layer hands on."""

    @abstractmethod
    def sites(self, tokens: int) -> dict[str, tuple[int, ...]]:
        """Every place where train mode drops numbers out, and its shape for a sentence of so many tokens."""

    def parts(self) -> dict[str, nn.Module]:
        """Every named part: "2.query" -> its module."""
        found = {part: self.get_submodule(path) for part, path in {**self.TABLES, **self.HEAD}.items()}
        for layer, block in enumerate(self.layers):
            named = dict(block.named_modules())
            found |= {f"{layer}.{part}": named[path] for part, path in self.PARTS.items() if path in named}
        return found

    @property
    def after_layers(self) -> tuple[str, ...]:
        """The head's parts."""
        return (*self.HEAD, "word") if self.tied and not self.labels else tuple(self.HEAD)

    def embed(self, words: Tensor, masks: Masks = NONE) -> Tensor:
        """Word vectors (rows, tokens, hidden) -> what layer 0 reads."""
        return masked(self.placed(self.summed(self.located(words))), masks, "embedding")

    def inputs(self, embedded: Tensor, layer: int, masks: Masks = NONE) -> Tensor:
        """What `layer` reads; `inputs(e, number of layers)` is what the head reads."""
        return embedded if layer == self.decoder else self._stack(embedded, layer, masks)

    def memory(self, embedded: Tensor) -> Tensor:
        """What a decoder asks besides the sentence itself: the state after the layers before it."""
        return self._stack(embedded, self.decoder or 0, NONE)

    def states(self, embedded: Tensor, layers: int) -> list[Tensor]:
        """What each of the first so many layers reads."""
        found = [embedded]
        for layer in range(layers - 1):
            found.append(self._layer(embedded, found[-1], layer, NONE))
        return found[:layers]

    def attended(self, embedded: Tensor, layer: int, masks: Masks = NONE) -> Tensor:
        """What the feed-forward half of `layer` reads."""
        return self._attended(embedded, self._stack(embedded, layer, masks), layer, masks)

    def reads_embeddings(self, layer: int) -> bool:
        """Whether the layer's input is the embedded sentence itself (layer 0, and a decoder's)."""
        return layer in (0, self.decoder)

    def normal(self, part: nn.Module, x: Tensor) -> Tensor | None:
        """What a norm's weight stretches, of what the norm reads; None of what is no norm."""
        return F.layer_norm(x, x.shape[-1:], eps=part.eps) if isinstance(part, self.NORMS) else None  # type: ignore[arg-type]

    def _stack(self, embedded: Tensor, layers: int, masks: Masks) -> Tensor:
        """The state after so many layers."""
        hidden = embedded
        for layer in range(layers):
            hidden = self._layer(embedded, hidden, layer, masks)
        return hidden

    def _layer(self, embedded: Tensor, hidden: Tensor, layer: int, masks: Masks) -> Tensor:
        tick()
        after = self._after(self._attended(embedded, hidden, layer, masks), layer, masks)
        if after.requires_grad:  # so that the way back can be stopped in every layer, too
            after.register_hook(lambda gradient: tick())
        return after

    @cached_property
    def trained(self) -> "Anatomy":
        """The client's: the same numbers in memory, as parameters that have gradients.

        Here they have none, so that attacks build no graph for them; and as visitors share a network, that is never
        switched on for a moment, nor does a client's step run into the hooks of an attack.
        """
        own = {id(parameter): nn.Parameter(parameter.detach()) for parameter in self.parameters()}
        return copy.deepcopy(self, {**own, id(self.config): self.config, id(self.alone): self.alone})

    @cached_property
    def kept(self) -> dict[str, "Anatomy"]:
        """What was made of this one by others (`rough`), and goes with it."""
        return {}


def mixed(
    attention: Attention, asking: Tensor, answering: Tensor, masks: Masks = NONE, site: str = "", causal: bool = False
) -> Tensor:
    """What the heads gather: (rows, tokens, width). Written out, as dropout's masks have to get in."""
    split = (attention.heads, -1)
    query, key, value = attention.query(asking), attention.key(answering), attention.value(answering)
    query, key, value = (x.unflatten(-1, split).transpose(-3, -2) for x in (query, key, value))
    logits = query @ key.mT * attention.scaling  # (rows, heads, tokens, tokens)
    if causal:  # each token sees itself and those before it
        tokens = asking.shape[-2]
        logits = logits + torch.full((tokens, tokens), -torch.inf, device=asking.device).triu(1)
    weights = masked(logits.softmax(-1), masks, f"{site}-probabilities")
    return (weights @ value).transpose(-3, -2).flatten(-2)


def masked(x: Tensor, masks: Masks, site: str) -> Tensor:
    return x * masks[site] if site in masks else x
