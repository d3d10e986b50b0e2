"""GPT-2: learned positions, LayerNorm, one feed-forward matrix to widen and one to narrow.

Its query, key and value are one fused matrix in the original; here its thirds are matrices of their own.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoConfig, GPT2Config

from demo.victim.anatomy import Attention
from demo.victim.causal import LABELS, Causal, Normed
from demo.victim.hub import ModelError, tensors_in
from demo.victim.weights import fresh_classifier

THEIRS = {"wte": "table", "wpe": "order", "ln_f": "norm"}  # transformers' names -> ours
BLOCK = {
    "ln_1": "attention_norm",
    "ln_2": "ffn_norm",
    "attn.c_proj": "join",
    "mlp.c_fc": "widen",
    "mlp.c_proj": "narrow",
}


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
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        if config.model_type != "gpt2":
            raise ModelError(f"{folder.name} is a {config.model_type}: give a gpt2")
        with torch.device("meta"):
            net = cls(config)
        numbers = {"classifier.weight": torch.empty(LABELS, net.width)}
        for name, number in tensors_in(folder).items():
            numbers |= _ours(name.removeprefix("transformer."), number)
        net.load_state_dict(numbers, assign=True)
        fresh_classifier(net.classifier, config.initializer_range)
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


def _ours(name: str, number: Tensor) -> dict[str, Tensor]:
    """h.3.attn.c_proj.weight -> layers.3.join.weight; matrices are stored the other way round, three of them in one."""
    part, _, kind = name.rpartition(".")
    if part in THEIRS:
        return {f"{THEIRS[part]}.{kind}": number}
    if not part.startswith("h."):
        return {}  # the table of words once more, as the output matrix
    _, layer, *inside = part.split(".")
    part = ".".join(inside)
    number = number.T.contiguous() if number.dim() == 2 else number
    if part == "attn.c_attn":
        thirds = zip(("query", "key", "value"), number.chunk(3), strict=True)
        return {f"layers.{layer}.{ours}.{kind}": third for ours, third in thirds}
    return {f"layers.{layer}.{BLOCK[part]}.{kind}": number} if part in BLOCK else {}  # older files hold masks, too
