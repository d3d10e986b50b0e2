"""The same network in bfloat16: nearly twice as quick, and right to about 0.2 %."""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo.victim.anatomy import Anatomy

BFLOAT16 = ("avx512_bf16", "amx_bf16", "bf16")  # what processors that multiply bfloat16 call it; the last is ARM's


class RoughLinear(nn.Module):
    """A linear layer in bfloat16, which has eight bits of a number's digits."""

    def __init__(self, exact: nn.Linear) -> None:
        super().__init__()
        self.weight = exact.weight.bfloat16()
        self.bias = None if exact.bias is None else exact.bias.bfloat16()

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x.bfloat16(), self.weight, self.bias)


def rough(net: Anatomy) -> Anatomy:
    """The same network, nearly twice as quick and right to about 0.2 %, where the processor multiplies bfloat16 itself.

    For searches, which compare thousands of guesses: what tells two of them apart is far larger, and the one that they
    end with is proven by the network as it is. Elsewhere: the network as it is.
    """
    if net.words.device.type != "cpu" or not any(torch.cpu.get_capabilities().get(name) for name in BFLOAT16):
        return net
    if "rough" not in net.kept:
        net.kept["rough"] = _roughened(net)
    return net.kept["rough"]


def _roughened(net: Anatomy) -> Anatomy:
    """It shares all but its matrices."""
    shared = {id(part): part for part in (*net.parameters(), net.trained, net.kept, net.config, net.alone)}
    twin = copy.deepcopy(net, shared)
    for module in list(twin.layers.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                setattr(module, name, RoughLinear(child))
    return twin
