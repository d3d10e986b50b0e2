"""BERT written out as a plain stack, so that an attack can run *part* of it: only up to the matrix that leaked."""

import copy
import threading
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertEmbeddings, BertLayer

from demo.turns import tick

LABELS = 2  # sentence classification with two labels, as in the papers

# Dropout in train mode: site -> what the numbers there are multiplied by, 0 if dropped and 1 / (1 - rate) if kept.
Masks = Mapping[str, Tensor]
NONE: Masks = {}  # eval mode
BFLOAT16 = ("avx512_bf16", "amx_bf16", "bf16")  # what processors that multiply bfloat16 call it; the last is ARM's


class Network(nn.Module):
    """BERT with a pooler and a classifier, its stages callable one by one. No padding; dropout only by given masks."""

    def __init__(self, config: BertConfig, decoder: bool = False) -> None:
        super().__init__()
        self.config = config
        self.embeddings = BertEmbeddings(config)
        layers = [BertLayer(config) for _ in range(config.num_hidden_layers - decoder)]
        if decoder:
            layers.append(BertLayer(_copied(config, is_decoder=True, add_cross_attention=True)))
        self.layers = nn.ModuleList(layers)
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
        self.classifier = nn.Linear(config.hidden_size, LABELS)
        self.decoder = len(layers) - 1 if decoder else None
        # The row the classifier reads: [CLS]; in a causal decoder the last token, the only one that has seen them all.
        self.read_row = -1 if decoder else 0
        self.alone = threading.Lock()  # held by whoever hooks into the network: visitors share it

    def block(self, layer: int) -> Any:
        """One BertLayer, whose parts are reached by their names."""
        return self.layers[layer]

    @property
    def words(self) -> Tensor:
        return self.embeddings.word_embeddings.weight  # (vocabulary, hidden)

    def embed(self, words: Tensor, masks: Masks = NONE) -> Tensor:
        """Word vectors (rows, tokens, hidden) -> what layer 0 reads: LayerNorm(word + position + type)."""
        tables = self.embeddings
        positions = tables.position_embeddings.weight[: words.shape[-2]]
        embedded = tables.LayerNorm(words + positions + tables.token_type_embeddings.weight[0])
        return _masked(embedded, masks, "embedding")

    def inputs(self, embedded: Tensor, layer: int, masks: Masks = NONE) -> Tensor:
        """What `layer` reads; `inputs(e, number of layers)` is what the pooler reads."""
        if layer == self.decoder:
            return embedded
        return self._stack(embedded, layer, masks)

    def memory(self, embedded: Tensor) -> Tensor:
        """What a decoder asks besides the sentence itself: the encoder's last state."""
        return self._stack(embedded, self.decoder or 0, NONE)

    def states(self, embedded: Tensor, layers: int) -> list[Tensor]:
        """What each of the first so many layers reads."""
        found = [embedded]
        for layer in range(layers - 1):
            found.append(self._layer(embedded, found[-1], layer, NONE))
        return found[:layers]

    def attended(self, embedded: Tensor, layer: int, masks: Masks = NONE) -> Tensor:
        """What the feed-forward half of `layer` reads: its attention's output, added and normalised."""
        return self._attended(embedded, self._stack(embedded, layer, masks), layer, masks)

    def forward(self, words: Tensor, masks: Masks = NONE) -> Tensor:
        hidden = self.inputs(self.embed(words, masks), len(self.layers), masks)
        pooled = _masked(torch.tanh(self.pooler(hidden[:, self.read_row])), masks, "pooled")
        return self.classifier(pooled)

    def sites(self, tokens: int) -> dict[str, tuple[int, ...]]:
        """Every place where train mode drops numbers out, and its shape for a sentence of so many tokens."""
        hidden, square = (tokens, self.config.hidden_size), (self.config.num_attention_heads, tokens, tokens)
        found: dict[str, tuple[int, ...]] = {"embedding": hidden}
        for layer in range(len(self.layers)):
            parts = ("attention", "cross") if layer == self.decoder else ("attention",)
            for part in parts:
                found |= {f"{layer}.{part}-probabilities": square, f"{layer}.{part}-output": hidden}
            found[f"{layer}.ffn-output"] = hidden
        return found | {"pooled": hidden[1:]}

    def _stack(self, embedded: Tensor, layers: int, masks: Masks) -> Tensor:
        """The state after so many layers. A decoder reads the sentence itself, and the encoder's last state."""
        hidden = embedded
        for layer in range(layers):
            hidden = self._layer(embedded, hidden, layer, masks)
        return hidden

    def _layer(self, embedded: Tensor, hidden: Tensor, layer: int, masks: Masks) -> Tensor:
        tick()
        block, attended = self.block(layer), self._attended(embedded, hidden, layer, masks)
        widened = block.output.dense(block.intermediate(attended))
        after = block.output.LayerNorm(attended + _masked(widened, masks, f"{layer}.ffn-output"))
        if after.requires_grad:  # so that the way back can be stopped in every layer, too
            after.register_hook(_ticked)
        return after

    def _attended(self, embedded: Tensor, hidden: Tensor, layer: int, masks: Masks) -> Tensor:
        block = self.block(layer)
        if layer != self.decoder:
            return _attend(block.attention, hidden, hidden, masks, f"{layer}.attention")
        own = _attend(block.attention, embedded, embedded, masks, f"{layer}.attention", causal=True)
        return _attend(block.crossattention, own, hidden, masks, f"{layer}.cross")

    @cached_property
    def trained(self) -> "Network":
        """The client's: the same numbers in memory, as parameters that have gradients.

        Here they have none, so that attacks build no graph for them; and as visitors share a network, that is never
        switched on for a moment, nor does a client's step run into the hooks of an attack.
        """
        own = {id(parameter): nn.Parameter(parameter.detach()) for parameter in self.parameters()}
        return copy.deepcopy(self, {**own, id(self.config): self.config, id(self.alone): self.alone})

    @cached_property
    def roughened(self) -> "Network":
        """What `rough` makes of this one; it shares all but its matrices, and goes with it."""
        shared = {id(part): part for part in (*self.parameters(), self.trained, self.config, self.alone)}
        twin = copy.deepcopy(self, shared)
        for module in list(twin.layers.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.Linear):
                    setattr(module, name, RoughLinear(child))
        return twin

    def reads_embeddings(self, layer: int) -> bool:
        """Whether the layer's input is the embedded sentence itself (layer 0, and a decoder's)."""
        return layer in (0, self.decoder)


class RoughLinear(nn.Module):
    """A linear layer in bfloat16, which has eight bits of a number's digits."""

    def __init__(self, exact: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = exact.weight.bfloat16(), exact.bias.bfloat16()

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x.bfloat16(), self.weight, self.bias)


def rough(net: Network) -> Network:
    """The same network, nearly twice as quick and right to about 0.2 %, where the processor multiplies bfloat16 itself.

    For searches, which compare thousands of guesses: what tells two of them apart is far larger, and the one that they
    end with is proven by the network as it is. Elsewhere: the network as it is.
    """
    if net.words.device.type != "cpu" or not any(torch.cpu.get_capabilities().get(name) for name in BFLOAT16):
        return net
    return net.roughened


def _attend(attention: Any, asking: Tensor, answering: Tensor, masks: Masks, site: str, causal: bool = False) -> Tensor:
    """One attention block of BERT: mix, project, add, normalise. Written out, as dropout's masks have to get in."""
    own, split = attention.self, (attention.self.num_attention_heads, -1)
    query, key, value = own.query(asking), own.key(answering), own.value(answering)
    query, key, value = (x.unflatten(-1, split).transpose(-3, -2) for x in (query, key, value))
    logits = query @ key.mT * own.scaling  # (rows, heads, tokens, tokens)
    if causal:  # each token sees itself and those before it
        tokens = asking.shape[-2]
        logits = logits + torch.full((tokens, tokens), -torch.inf, device=asking.device).triu(1)
    weights = _masked(logits.softmax(-1), masks, f"{site}-probabilities")
    mixed = (weights @ value).transpose(-3, -2).flatten(-2)
    return attention.output.LayerNorm(asking + _masked(attention.output.dense(mixed), masks, f"{site}-output"))


def _ticked(gradient: Tensor) -> None:
    tick()


def _masked(x: Tensor, masks: Masks, site: str) -> Tensor:
    return x * masks[site] if site in masks else x


def _copied(config: BertConfig, **changes: Any) -> BertConfig:
    copy = BertConfig(**{**config.to_dict(), **changes})
    copy._attn_implementation = config._attn_implementation
    return copy
