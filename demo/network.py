"""BERT written out as a plain stack, so that an attack can run *part* of it: only up to the matrix that leaked."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertEmbeddings, BertLayer

LABELS = 2  # sentence classification with two labels, as in the papers


class Network(nn.Module):
    """BERT with a pooler and a classifier, its stages callable one by one. No padding, no mask, eval mode."""

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
        self.alone = threading.RLock()  # held by whoever hooks into or thaws the network: visitors share it

    def block(self, layer: int) -> Any:
        """One BertLayer, whose parts are reached by their names."""
        return self.layers[layer]

    def embed(self, words: Tensor) -> Tensor:
        """Word vectors (rows, tokens, hidden) -> what layer 0 reads: LayerNorm(word + position + type)."""
        tables = self.embeddings
        positions = tables.position_embeddings.weight[: words.shape[-2]]
        return tables.LayerNorm(words + positions + tables.token_type_embeddings.weight[0])

    def inputs(self, embedded: Tensor, layer: int) -> Tensor:
        """What `layer` reads; `inputs(e, number of layers)` is what the pooler reads."""
        if layer == self.decoder:
            return embedded
        hidden = embedded
        for index, block in enumerate(self.layers[:layer]):
            if index == self.decoder:
                hidden = block(embedded, _causal(embedded), encoder_hidden_states=hidden)
            else:
                hidden = block(hidden)
        return hidden

    def attended(self, embedded: Tensor, layer: int) -> Tensor:
        """What the feed-forward half of `layer` reads: its attention's output, added and normalised."""
        block = self.block(layer)
        if layer == self.decoder:
            memory = self.inputs(embedded, layer - 1)
            memory = self.layers[layer - 1](memory)
            own = block.attention(embedded, _causal(embedded))[0]
            return block.crossattention(own, None, memory)[0]
        return block.attention(self.inputs(embedded, layer))[0]

    def forward(self, words: Tensor) -> Tensor:
        hidden = self.inputs(self.embed(words), len(self.layers))
        return self.classifier(torch.tanh(self.pooler(hidden[:, self.read_row])))

    @contextmanager
    def thawed(self, parameters: Sequence[nn.Parameter]) -> Iterator[None]:
        """Gradients for these parameters; they stay frozen otherwise, so that attacks build no graph for them."""
        with self.alone:
            for parameter in parameters:
                parameter.requires_grad_(True)
            try:
                yield
            finally:
                for parameter in parameters:
                    parameter.requires_grad_(False)

    def reads_embeddings(self, layer: int) -> bool:
        """Whether the layer's input is the embedded sentence itself (layer 0, and a decoder's)."""
        return layer in (0, self.decoder)


def _copied(config: BertConfig, **changes: Any) -> BertConfig:
    copy = BertConfig(**{**config.to_dict(), **changes})
    copy._attn_implementation = config._attn_implementation
    return copy


def _causal(embedded: Tensor) -> Tensor:
    """An additive mask (1, 1, tokens, tokens) that lets each token see itself and those before it."""
    tokens = embedded.shape[-2]
    return torch.full((1, 1, tokens, tokens), -torch.inf, device=embedded.device).triu(1)
