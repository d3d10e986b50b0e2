"""Llama and its kin (SmolLM2, TinyLlama, Qwen2): places turn queries and keys, gates multiply, heads share keys.

`RMSNorm`s have no bias; the output matrix may be the word table (tied) or one of its own.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoConfig, LlamaConfig, Qwen2Config

from demo.victim.anatomy import Attention
from demo.victim.causal import LABELS, Causal, Normed
from demo.victim.hub import ModelError, tensors_in
from demo.victim.weights import fresh_classifier

KIN: dict[str, Any] = {"llama": LlamaConfig, "qwen2": Qwen2Config}  # whose query, key and value have biases
THEIRS = {  # our parts of a layer -> transformers' names
    "attention_norm": "input_layernorm",
    "query": "self_attn.q_proj",
    "key": "self_attn.k_proj",
    "value": "self_attn.v_proj",
    "join": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "widen": "mlp.up_proj",
    "narrow": "mlp.down_proj",
}
OUTSIDE = {"table": "model.embed_tokens", "norm": "model.norm", "output": "lm_head"}


class RootMeanSquare(nn.Module):
    """x divided by the root of its mean square, then stretched."""

    def __init__(self, hidden: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(hidden)), eps

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * self.normal(x)

    def normal(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


class Block(nn.Module):
    def __init__(self, config: Any, size: int) -> None:
        super().__init__()
        hidden, ffn, eps = config.hidden_size, config.intermediate_size, config.rms_norm_eps
        asked, answered = config.num_attention_heads * size, config.num_key_value_heads * size
        bias = getattr(config, "attention_bias", config.model_type == "qwen2")
        self.attention_norm, self.ffn_norm = RootMeanSquare(hidden, eps), RootMeanSquare(hidden, eps)
        self.query = nn.Linear(hidden, asked, bias)
        self.key, self.value = nn.Linear(hidden, answered, bias), nn.Linear(hidden, answered, bias)
        self.join = nn.Linear(asked, hidden, bias=bias and config.model_type != "qwen2")
        self.gate, self.widen = nn.Linear(hidden, ffn, bias=False), nn.Linear(hidden, ffn, bias=False)
        self.narrow = nn.Linear(ffn, hidden, bias=False)


class Llama(Causal):
    PARTS: ClassVar[Mapping[str, str]] = {
        "attention-norm": "attention_norm",
        "query": "query",
        "key": "key",
        "value": "value",
        "attention-output": "join",
        "ffn-norm": "ffn_norm",
        "ffn-gate": "gate",
        "ffn-in": "widen",
        "ffn-out": "narrow",
    }
    TABLES: ClassVar[Mapping[str, str]] = {"word": "table"}
    NORMS = (RootMeanSquare,)

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        hidden, self.heads = config.hidden_size, config.num_attention_heads
        self.width, self.key_heads, self.tied = hidden, config.num_key_value_heads, config.tie_word_embeddings
        self.size = getattr(config, "head_dim", None) or hidden // self.heads
        self.longest, self.dropout = config.max_position_embeddings, config.attention_dropout
        self.theta = _theta(config)
        self.table = nn.Embedding(config.vocab_size, hidden)
        self.layers = nn.ModuleList(Block(config, self.size) for _ in range(config.num_hidden_layers))
        self.norm = RootMeanSquare(hidden, config.rms_norm_eps)
        self.classifier = nn.Linear(hidden, LABELS, bias=False)
        self.HEAD: Mapping[str, str] = {"final-norm": "norm"}  # type: ignore[misc]
        if not self.tied:
            self.output = nn.Linear(hidden, config.vocab_size, bias=False)
            self.HEAD = {"final-norm": "norm", "output": "output"}  # type: ignore[misc]

    @classmethod
    def shaped(
        cls,
        layers: int,
        hidden: int,
        heads: int,
        ffn: int,
        vocabulary: int,
        key_heads: int = 0,
        tied: bool = True,
        kin: str = "llama",
        **own: Any,
    ) -> "Llama":
        config = KIN[kin](
            vocab_size=vocabulary,
            hidden_size=hidden,
            intermediate_size=ffn,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=key_heads or heads,
            tie_word_embeddings=tied,
        )
        return cls(config)

    @classmethod
    def saved(cls, folder: Path) -> "Llama":
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        if config.model_type not in KIN:
            raise ModelError(f"{folder.name} is a {config.model_type}: give one of {', '.join(KIN)}")
        with torch.device("meta"):  # the numbers are put where torch's own would be, and not copied
            net = cls(config)
        theirs = tensors_in(folder)
        numbers = {name: theirs[_theirs(name)] for name in net.state_dict() if name != "classifier.weight"}
        numbers["classifier.weight"] = torch.empty(LABELS, net.width)
        net.load_state_dict(numbers, assign=True)
        fresh_classifier(net.classifier, config.initializer_range)
        return net

    @property
    def words(self) -> Tensor:
        return self.table.weight

    def places(self, places: slice | list[int]) -> Tensor:
        return torch.zeros((), device=self.words.device, dtype=self.words.dtype)  # nothing is added: they turn

    def located(self, words: Tensor) -> Tensor:
        return words

    def placed(self, summed: Tensor) -> Tensor:
        return summed

    def attention_norm(self, layer: int) -> Any:
        return self.layers[layer].attention_norm

    def turned(self, x: Tensor, start: int) -> Tensor:
        half = self.size // 2
        rates = self.theta ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
        places = torch.arange(start, start + x.shape[-2], device=x.device, dtype=torch.float32)
        angles = torch.outer(places, rates)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        left, right = x[..., :half], x[..., half:]
        return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)

    def attention(self, layer: int, cross: bool = False) -> Attention:
        own: Any = self.layers[layer]
        return Attention(own.query, own.key, own.value, own.join, self.heads, self.size**-0.5)

    def feed_forward(self, layer: int) -> Normed:
        own: Any = self.layers[layer]
        return Normed(own.widen, F.silu, own.narrow, own.ffn_norm, own.gate)

    def sites(self, tokens: int) -> dict[str, tuple[int, ...]]:
        """It is trained with dropout on attention alone, if at all."""
        return {site: shape for site, shape in super().sites(tokens).items() if "probabilities" in site}

    def normal(self, part: nn.Module, x: Tensor) -> Tensor | None:
        return part.normal(x) if isinstance(part, RootMeanSquare) else None


def _theirs(name: str) -> str:
    """layers.3.query.weight -> model.layers.3.self_attn.q_proj.weight"""
    part, _, kind = name.rpartition(".")
    if not part.startswith("layers."):
        return f"{OUTSIDE[part]}.{kind}"
    _, layer, part = part.split(".")
    return f"model.layers.{layer}.{THEIRS[part]}.{kind}"


def _theta(config: Any) -> float:
    """How slowly places turn; some of the kin turn in other ways."""
    rope = config.rope_parameters
    if rope.get("rope_type", "default") != "default":
        raise ModelError(f"rotary places of type {rope['rope_type']!r}: only 'default' can be read")
    return float(rope["rope_theta"])
