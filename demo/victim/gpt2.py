"""GPT-2: learned positions, LayerNorm, one feed-forward matrix to widen and one to narrow.

Its query, key and value are one fused matrix in the original; here its thirds are matrices of their own.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel

from demo.victim.anatomy import Attention
from demo.victim.causal import LABELS, Causal, Normed
from demo.victim.weights import fresh_classifier, hush


class Block(nn.Module):
    def __init__(self, hidden: int, ffn: int, eps: float) -> None:
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.LayerNorm(hidden, eps), nn.LayerNorm(hidden, eps)
        self.query, self.key, self.value, self.join = (nn.Linear(hidden, hidden) for _ in range(4))
        self.widen, self.narrow = nn.Linear(hidden, ffn), nn.Linear(ffn, hidden)


class Gpt2(Causal):
    """The output matrix is the word table."""

    PARTS: ClassVar[Mapping[str, str]] = {
        "attention-norm": "attention_norm",
        "query": "query",
        "key": "key",
        "value": "value",
        "attention-output": "join",
        "ffn-norm": "ffn_norm",
        "ffn-in": "widen",
        "ffn-out": "narrow",
    }
    TABLES: ClassVar[Mapping[str, str]] = {"word": "table", "position": "order"}
    HEAD: ClassVar[Mapping[str, str]] = {"final-norm": "norm"}
    ADDED = ("position",)
    NORMS = (nn.LayerNorm,)
    tied = True

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(config)
        hidden, eps = config.n_embd, config.layer_norm_epsilon
        self.width, self.heads, self.key_heads = hidden, config.n_head, config.n_head
        self.longest, self.dropout = config.n_positions, config.resid_pdrop
        self.table, self.order = nn.Embedding(config.vocab_size, hidden), nn.Embedding(config.n_positions, hidden)
        self.layers = nn.ModuleList(Block(hidden, config.n_inner or 4 * hidden, eps) for _ in range(config.n_layer))
        self.norm = nn.LayerNorm(hidden, eps)
        self.classifier = nn.Linear(hidden, LABELS, bias=False)

    @classmethod
    def shaped(cls, layers: int, hidden: int, heads: int, ffn: int, vocabulary: int, **own: Any) -> "Gpt2":
        return cls(GPT2Config(vocab_size=vocabulary, n_embd=hidden, n_layer=layers, n_head=heads, n_inner=ffn))

    @classmethod
    def saved(cls, folder: Path) -> "Gpt2":
        hush()
        theirs = GPT2LMHeadModel.from_pretrained(
            folder, use_safetensors=True, local_files_only=True, dtype=torch.float32
        ).transformer
        net = cls(theirs.config)
        net.table.load_state_dict(theirs.wte.state_dict())
        net.order.load_state_dict(theirs.wpe.state_dict())
        net.norm.load_state_dict(theirs.ln_f.state_dict())
        for ours, block in zip(net.layers, theirs.h, strict=True):
            _copy(ours, block)
        fresh_classifier(net.classifier, theirs.config.initializer_range)
        return net

    @property
    def words(self) -> Tensor:
        return self.table.weight

    def places(self, places: slice | list[int]) -> Tensor:
        return self.order.weight[places]

    def placed(self, summed: Tensor) -> Tensor:
        return summed

    def attention_norm(self, layer: int) -> Any:
        return self.layers[layer].attention_norm

    def attention(self, layer: int, cross: bool = False) -> Attention:
        own: Any = self.layers[layer]
        return Attention(own.query, own.key, own.value, own.join, self.heads, (self.heads / self.width) ** 0.5)

    def feed_forward(self, layer: int) -> Normed:
        own: Any = self.layers[layer]
        return Normed(own.widen, _gelu, own.narrow, own.ffn_norm)


def _gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def _copy(ours: Any, theirs: Any) -> None:
    """One layer's numbers; theirs are stored the other way round."""
    ours.attention_norm.load_state_dict(theirs.ln_1.state_dict())
    ours.ffn_norm.load_state_dict(theirs.ln_2.state_dict())
    weights, biases = theirs.attn.c_attn.weight.T.chunk(3), theirs.attn.c_attn.bias.chunk(3)
    for linear, weight, bias in zip((ours.query, ours.key, ours.value), weights, biases, strict=True):
        linear.load_state_dict({"weight": weight, "bias": bias})
    others = {ours.join: theirs.attn.c_proj, ours.widen: theirs.mlp.c_fc, ours.narrow: theirs.mlp.c_proj}
    for linear, other in others.items():
        linear.load_state_dict({"weight": other.weight.T, "bias": other.bias})
