"""The real package `spaces` as on a Space that lends GPUs; only the GPU is a stub, and whoever lends it.

Imported in its place (this folder comes first on the path), it fetches the real one and takes its place in turn. What
is left as it is: torch's emulation of a GPU in the process that serves, forked workers, what is pickled for them, how
weights are moved there. What is not: a GPU in the worker is the CPU by the name of cuda, and who asks for one gets it
at once. Each loan is noted in the file that SPACES_NOTED names.
"""

import importlib
import json
import os
import sys
import threading
from pathlib import Path

sys.path.remove(str(Path(__file__).parent))
del sys.modules["spaces"]
import torch  # noqa: E402

torch.version.cuda = torch.version.cuda or "13.0"  # a build for CPUs lacks what the package asks for
torch._C._cuda_init = getattr(torch._C, "_cuda_init", None)
torch.cuda._is_in_bad_fork = bool  # never; and unlike torch's own, it can be pickled
importlib.import_module("spaces")

import httpx  # noqa: E402
from spaces.zero import api, client  # noqa: E402
from spaces.zero import torch as emulation  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._pytree import tree_map  # noqa: E402


def note(**what):
    with Path(os.environ["SPACES_NOTED"]).open("a") as file:
        file.write(json.dumps({**what, "by": os.getpid()}) + "\n")


class Lender:
    """Answers as the service of a Space does."""

    def startup_report(self):
        return httpx.codes.OK

    def schedule(self, duration_seconds, **_):
        note(asked=duration_seconds)
        return api.ScheduleResponse(idle=True, nvidiaIndex=0, nvidiaUUID="", allowToken=""), api.ScheduleMetadata()

    def allow(self, allow_token, pid):
        note(worker=pid)
        return httpx.codes.OK

    def release(self, allow_token, fail=False):
        note(released=not fail)
        return httpx.codes.OK


class Renamed(TorchFunctionMode):
    """cuda is another name of the CPU."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is not torch.device:
            args, kwargs = tree_map(self.meant, (args, kwargs or {}))
        return func(*args, **(kwargs or {}))

    def meant(self, value):
        cuda = isinstance(value, torch.device) and value.type == "cuda"
        return torch.device("cpu") if cuda or (isinstance(value, str) and value == "cuda") else value


def started(uuid):
    """What a worker does first, with the GPU that it was lent."""
    torch.cuda.is_available = lambda: True
    torch.cuda.synchronize = lambda *_: None
    torch.Tensor.cuda = torch.Tensor.pin_memory = lambda tensor, **_: tensor
    run = threading.Thread.run

    def renamed(thread):
        with Renamed():  # a mode is a thread's own, but a GPU is there for all of them
            run(thread)

    threading.Thread.run = renamed


client.api_client = Lender
emulation.init = started
emulation.pack = lambda: 0  # the weights stay in memory, as the way from the disk ends on a GPU
