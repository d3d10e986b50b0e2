"""The numbers of a network: where they come from, and how they are drawn."""

from dataclasses import dataclass

import torch
from torch import nn
from transformers.utils import logging

from demo.turns import tick
from demo.victim.anatomy import Anatomy


@dataclass(frozen=True)
class Weights:
    """Where the numbers come from: `pretrained`, or drawn from `normal`(0, scale) or `uniform`(-scale, scale)."""

    kind: str = "pretrained"
    scale: float = 0.02
    seed: int = 0


def draw(net: Anatomy, weights: Weights) -> None:
    """Initialises every matrix and table from the chosen distribution, in a fixed order; norms stay 1 and biases 0."""
    generator = torch.Generator().manual_seed(weights.seed)
    parameters = list(net.named_parameters())
    norms = {id(weight) for module in net.modules() if isinstance(module, net.NORMS) for weight in module.parameters()}
    for n, (name, parameter) in enumerate(parameters, 1):
        tick(f"drawing the model's weights, {n} of {len(parameters)} tensors")
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif id(parameter) in norms:
            nn.init.ones_(parameter)
        elif weights.kind == "normal":
            nn.init.normal_(parameter, 0.0, weights.scale, generator=generator)
        else:
            nn.init.uniform_(parameter, -weights.scale, weights.scale, generator=generator)


def fresh_classifier(classifier: nn.Linear, scale: float) -> None:
    """A head for labels, which no pretrained model brings; its seed is fixed, as it is public."""
    generator = torch.Generator().manual_seed(0)
    nn.init.normal_(classifier.weight, 0.0, scale, generator=generator)
    if classifier.bias is not None:
        nn.init.zeros_(classifier.bias)


def hush() -> None:
    """transformers reports each tensor that it does not use, and draws progress bars."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
