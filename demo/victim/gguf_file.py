"""A llama in a GGUF file, as llama.cpp runs it -> a folder that transformers reads: float32, and its own tokenizer.

Numbers that were rounded to a few bits become what they stand for: an exact model, if another than before the rounding.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import LlamaConfig

from demo.turns import tick, ticking

SPECIAL = 3  # the type of a token that stands for no text
OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
INSIDE = {  # a layer's parts -> transformers' names
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def unpack(file: Path, folder: Path, title: str) -> None:
    """Writes config.json, model.safetensors, tokenizer.json and tokenizer_config.json."""
    tick(f"reading the words of {title}")
    reader = GGUFReader(file)
    told = {name: field.contents() for name, field in ticking(reader.fields.items())}
    if told["general.architecture"] != "llama" or told["tokenizer.ggml.pre"] != "smollm":
        raise ValueError(f"{file.name} is no llama with SmolLM's tokenizer: nothing else can be unpacked")
    config = config_of(told, tied=all(tensor.name != "output.weight" for tensor in reader.tensors))
    tensors: dict[str, Tensor] = {}
    for tensor in ticking(reader.tensors, f"unpacking {title}: {len(reader.tensors)} tensors, once"):
        numbers = dequantize(tensor.data, tensor.tensor_type)
        tensors[name_of(tensor.name)] = torch.from_numpy(turned_back(tensor.name, numbers, config))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)
    tokenizer_of(told).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(named_tokens(told)), encoding="utf-8")


def config_of(told: dict[str, Any], tied: bool) -> Any:
    own = {name.removeprefix("llama."): value for name, value in told.items() if name.startswith("llama.")}
    return LlamaConfig(
        vocab_size=own["vocab_size"],
        hidden_size=own["embedding_length"],
        intermediate_size=own["feed_forward_length"],
        num_hidden_layers=own["block_count"],
        num_attention_heads=own["attention.head_count"],
        num_key_value_heads=own["attention.head_count_kv"],
        max_position_embeddings=own["context_length"],
        rms_norm_eps=own["attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": own["rope.freq_base"]},
        tie_word_embeddings=tied,
        architectures=["LlamaForCausalLM"],
    )


def name_of(name: str) -> str:
    """blk.3.attn_q.weight -> model.layers.3.self_attn.q_proj.weight"""
    part, _, kind = name.rpartition(".")
    if not part.startswith("blk."):
        return f"{OUTSIDE[part]}.{kind}"
    _, layer, part = part.split(".")
    return f"model.layers.{layer}.{INSIDE[part]}.{kind}"


def turned_back(name: str, numbers: np.ndarray, config: Any) -> np.ndarray:
    """The rows of queries and keys in transformers' order: llama.cpp has those in pairs that places turn together."""
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    part = name.split(".")[-2]
    if part in heads:
        pairs = numbers.reshape(heads[part], -1, 2, numbers.shape[-1])
        numbers = pairs.swapaxes(1, 2).reshape(numbers.shape)
    return np.array(numbers, dtype=np.float32, order="C")  # a copy: what is mapped from the file goes with it


def tokenizer_of(told: dict[str, Any]) -> Tokenizer:
    """Pairs of bytes that occur often are merged; digits stand alone."""
    tokens, merges = told["tokenizer.ggml.tokens"], told["tokenizer.ggml.merges"]
    vocabulary = {token: id for id, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [tuple(merge.split(" ")) for merge in merges]))
    digits, by_bytes = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, by_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(tokens, told["tokenizer.ggml.token_type"], strict=True)
    special = [AddedToken(token, normalized=False, special=True) for token, kind in kinds if kind == SPECIAL]
    tokenizer.add_special_tokens(special)
    return tokenizer


def named_tokens(told: dict[str, Any]) -> dict[str, str]:
    tokens = told["tokenizer.ggml.tokens"]
    names = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}
    named = {f"{ours}_token": tokens[told[f"tokenizer.ggml.{theirs}_token_id"]] for ours, theirs in names.items()}
    return {**named, "tokenizer_class": "PreTrainedTokenizerFast"}
