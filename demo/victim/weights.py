"""The numbers of a network: read from a saved model's files, or drawn."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from transformers import BertModel
from transformers.utils import logging

from demo.turns import tick
from demo.victim.network import Network


@dataclass(frozen=True)
class Weights:
    """Where the numbers come from: `pretrained`, or drawn from `normal`(0, scale) or `uniform`(-scale, scale)."""

    kind: str = "pretrained"
    scale: float = 0.02
    seed: int = 0


def from_folder(folder: Path) -> Network:
    """A saved BertModel -> a network with those weights and a fresh head; its seed is fixed, as the head is public."""
    _quiet()
    bert = BertModel.from_pretrained(
        folder, use_safetensors=True, local_files_only=True, add_pooling_layer=True, attn_implementation="eager"
    )
    net = Network(bert.config)
    net.embeddings.load_state_dict(bert.embeddings.state_dict())
    for ours, theirs in zip(net.layers, bert.encoder.layer, strict=True):
        ours.load_state_dict(theirs.state_dict())
    net.pooler.load_state_dict(bert.pooler.dense.state_dict())
    generator = torch.Generator().manual_seed(0)
    nn.init.normal_(net.classifier.weight, 0.0, bert.config.initializer_range, generator=generator)
    nn.init.zeros_(net.classifier.bias)
    return net


def draw(net: Network, weights: Weights) -> None:
    """Initialises every matrix and table from the chosen distribution, in a fixed order; norms stay 1 and biases 0."""
    generator = torch.Generator().manual_seed(weights.seed)
    parameters = list(net.named_parameters())
    for n, (name, parameter) in enumerate(parameters, 1):
        tick(f"drawing the model's weights, {n} of {len(parameters)} tensors")
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif "LayerNorm" in name:
            nn.init.ones_(parameter)
        elif weights.kind == "normal":
            nn.init.normal_(parameter, 0.0, weights.scale, generator=generator)
        else:
            nn.init.uniform_(parameter, -weights.scale, weights.scale, generator=generator)


def _quiet() -> None:
    logging.set_verbosity_error()
    logging.disable_progress_bar()
