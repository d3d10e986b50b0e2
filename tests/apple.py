"""A device that knows no 64-bit numbers, as Apple's GPU: tensors of the CPU that say they are on mps.

    with apple() as device:
        model = placed(small(), device)

What is computed from them, or made there, is there too, until `.cpu()` brings it back. Whatever asks for 64 bits on it
raises what torch raises; so does `.numpy()`.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

from demo.victim.model import Model

DEVICE = torch.device("mps")
NO_DOUBLES = "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."
UNTOUCHED = (Tensor.__deepcopy__, Tensor.grad.__set__, Tensor.data.__set__, torch.device)


class There(Tensor):
    """A tensor that says it is on the device."""

    device = DEVICE

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        memo[id(self)] = self.detach().clone()
        return memo[id(self)]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return asked(func, args, kwargs or {})


class Device(TorchFunctionMode):
    """Sees the making of tensors too, where none takes part yet."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return asked(func, args, kwargs or {})


def asked(func: Any, args: Any, kwargs: Any) -> Any:
    """Computes on the CPU, and says where the result is."""
    if func in UNTOUCHED:
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    flat = tree_flatten((args, kwargs))[0]
    there = any(isinstance(arg, There) for arg in flat)
    if func is Tensor.numpy and there:
        raise TypeError("can't convert mps:0 device type tensor to numpy. Use Tensor.cpu() first.")
    named = [arg for arg in flat if isinstance(arg, torch.device)]
    if named or func is Tensor.cpu:
        there = any(device.type == "mps" for device in named)
        args, kwargs = tree_map(on_cpu, (args, kwargs))
    elif func is Tensor.to:  # like another tensor, or another type
        there = isinstance(args[1] if isinstance(args[1], Tensor) else args[0], There)
    with torch._C.DisableTorchFunctionSubclass():
        result = func(*args, **kwargs)
    return tree_map(marked if there else unmarked, result)


def on_cpu(value: Any) -> Any:
    return torch.device("cpu") if isinstance(value, torch.device) else value


def marked(value: Any) -> Any:
    if not isinstance(value, Tensor) or isinstance(value, There):
        return value
    if value.dtype == torch.float64:
        raise TypeError(NO_DOUBLES)
    return value.as_subclass(There)


def unmarked(value: Any) -> Any:
    return value.as_subclass(Tensor) if isinstance(value, There) else value


@contextmanager
def apple() -> Iterator[torch.device]:
    with Device():
        yield DEVICE


def placed(model: Model, device: torch.device) -> Model:
    """The same model on the device."""
    own = {id(p): nn.Parameter(p.detach().to(device), requires_grad=False) for p in model.net.parameters()}
    net = copy.deepcopy(model.net, {**own, id(model.net.alone): model.net.alone})
    return replace(model, net=net, device=device, ordinary=model.ordinary.to(device))
