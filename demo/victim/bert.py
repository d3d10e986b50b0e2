"""BERT: layers that look both ways, [CLS] and [SEP] at the ends of every sentence, a label read from [CLS]."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig, BertModel
from transformers.models.bert.modeling_bert import BertEmbeddings, BertLayer
from transformers.utils import logging

from demo.victim.anatomy import NONE, Anatomy, Attention, FeedForward, Masks, masked, mixed

LABELS = 2  # sentence classification with two labels, as in the papers


class Bert(Anatomy):
    """The encoder, with a pooler and a classifier."""

    # Exact names matter: 'output.dense' is the end of two.
    PARTS: ClassVar[Mapping[str, str]] = {
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "attention-output": "attention.output.dense",
        "attention-norm": "attention.output.LayerNorm",
        "ffn-in": "intermediate.dense",
        "ffn-out": "output.dense",
        "ffn-norm": "output.LayerNorm",
    }
    TABLES: ClassVar[Mapping[str, str]] = {
        "word": "embeddings.word_embeddings",
        "position": "embeddings.position_embeddings",
        "type": "embeddings.token_type_embeddings",
        "embedding-norm": "embeddings.LayerNorm",
    }
    HEAD: ClassVar[Mapping[str, str]] = {"pooler": "pooler", "classifier": "classifier"}
    ADDED = ("position", "type")
    NORMS = (nn.LayerNorm,)
    labels = LABELS

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.embeddings = BertEmbeddings(config)
        self.layers = nn.ModuleList(self.blocks(config))
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
        self.classifier = nn.Linear(config.hidden_size, LABELS)
        self.width, self.heads = config.hidden_size, config.num_attention_heads
        self.longest, self.dropout = config.max_position_embeddings, config.hidden_dropout_prob

    @classmethod
    def shaped(cls, layers: int, hidden: int, heads: int, ffn: int, vocabulary: int, **own: Any) -> "Bert":
        config = BertConfig(
            vocab_size=vocabulary,
            hidden_size=hidden,
            num_hidden_layers=layers,
            intermediate_size=ffn,
            num_attention_heads=heads,
            hidden_act="gelu",
            attn_implementation="eager",  # scaled_dot_product_attention has no double backward on CPU
        )
        return cls(config)

    @classmethod
    def saved(cls, folder: Path) -> "Bert":
        """A saved BertModel's weights with a fresh head; its seed is fixed, as the head is public."""
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        bert = BertModel.from_pretrained(
            folder, use_safetensors=True, local_files_only=True, add_pooling_layer=True, attn_implementation="eager"
        )
        net = cls(bert.config)
        net.embeddings.load_state_dict(bert.embeddings.state_dict())
        for ours, theirs in zip(net.layers, bert.encoder.layer, strict=True):
            ours.load_state_dict(theirs.state_dict())
        net.pooler.load_state_dict(bert.pooler.dense.state_dict())
        generator = torch.Generator().manual_seed(0)
        nn.init.normal_(net.classifier.weight, 0.0, bert.config.initializer_range, generator=generator)
        nn.init.zeros_(net.classifier.bias)
        return net

    @classmethod
    def ends(cls, tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (tokenizer.cls_token_id,), (tokenizer.sep_token_id,)

    def blocks(self, config: BertConfig) -> list[nn.Module]:
        return [BertLayer(config) for _ in range(config.num_hidden_layers)]

    def block(self, layer: int) -> Any:
        """One BertLayer, whose parts are reached by their names."""
        return self.layers[layer]

    @property
    def words(self) -> Tensor:
        return self.embeddings.word_embeddings.weight

    @property
    def embedding_norm(self) -> nn.LayerNorm:
        return self.embeddings.LayerNorm

    def places(self, places: slice | list[int]) -> Tensor:
        tables = self.embeddings
        return tables.position_embeddings.weight[places] + tables.token_type_embeddings.weight[0]

    def located(self, words: Tensor) -> Tensor:
        """Added in BERT's own order, which decides the last digits."""
        tables = self.embeddings
        positions = tables.position_embeddings.weight[: words.shape[-2]]
        return words + positions + tables.token_type_embeddings.weight[0]

    def placed(self, summed: Tensor) -> Tensor:
        return self.embeddings.LayerNorm(summed)

    def attention(self, layer: int, cross: bool = False) -> Attention:
        block = self._attention(layer, cross)
        own = block.self
        return Attention(own.query, own.key, own.value, block.output.dense, own.num_attention_heads, own.scaling)

    def feed_forward(self, layer: int) -> FeedForward:
        block = self.block(layer)
        return FeedForward(block.intermediate.dense, block.intermediate.intermediate_act_fn, block.output.dense)

    def after_attention(
        self, layer: int, state: Tensor, mixed: Tensor, cross: bool = False, masks: Masks = NONE
    ) -> Tensor:
        output, site = self._attention(layer, cross).output, f"{layer}.{'cross' if cross else 'attention'}-output"
        return output.LayerNorm(state + masked(output.dense(mixed), masks, site))

    def after_feed_forward(self, layer: int, state: Tensor, widened: Tensor, masks: Masks = NONE) -> Tensor:
        output = self.block(layer).output
        return output.LayerNorm(state + masked(output.dense(widened), masks, f"{layer}.ffn-output"))

    def label(self, state: Tensor, masks: Masks = NONE) -> Tensor:
        """What the label is read from (rows, hidden) -> logits."""
        return self.classifier(masked(torch.tanh(self.pooler(state)), masks, "pooled"))

    def forward(self, words: Tensor, masks: Masks = NONE) -> Tensor:
        hidden = self.inputs(self.embed(words, masks), len(self.layers), masks)
        return self.label(hidden[:, self.read_row], masks)

    def loss(self, words: Tensor, targets: Tensor, masks: Masks = NONE) -> Tensor:
        return F.cross_entropy(self(words, masks), targets, reduction="none")

    def sites(self, tokens: int) -> dict[str, tuple[int, ...]]:
        hidden, square = (tokens, self.width), (self.heads, tokens, tokens)
        found: dict[str, tuple[int, ...]] = {"embedding": hidden}
        for layer in range(len(self.layers)):
            for part in ("attention", "cross") if layer == self.decoder else ("attention",):
                found |= {f"{layer}.{part}-probabilities": square, f"{layer}.{part}-output": hidden}
            found[f"{layer}.ffn-output"] = hidden
        return found | {"pooled": hidden[1:]}

    def _attended(self, embedded: Tensor, hidden: Tensor, layer: int, masks: Masks) -> Tensor:
        gathered = mixed(self.attention(layer), hidden, hidden, masks, f"{layer}.attention")
        return self.after_attention(layer, hidden, gathered, masks=masks)

    def _after(self, attended: Tensor, layer: int, masks: Masks) -> Tensor:
        return self.after_feed_forward(layer, attended, self.feed_forward(layer).wide(attended), masks)

    def _attention(self, layer: int, cross: bool) -> Any:
        block = self.block(layer)
        return block.crossattention if cross else block.attention
