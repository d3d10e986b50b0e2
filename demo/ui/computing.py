"""A run for whoever asks, and where it is computed: on a GPU that a Space lends for it (ZeroGPU), else right here.

A lent GPU is seen by a forked worker only: what goes in and what comes out is pickled, and nothing else comes back. The
process that forks must never have run a backward pass: autograd sets up its threads once, for the devices that it then
sees, and a worker that inherits them has none for its GPU. So where GPUs are lent, the page itself computes nothing.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import gradio as gr
from gradio.utils import is_zero_gpu_space

from demo.machine import give_back
from demo.runs.engine import Experiment
from demo.screen.messages import Message, messages
from demo.ui.logs import place_of
from demo.victim.models import MODELS, prepare

Item = TypeVar("Item")
LENT = is_zero_gpu_space()
STARTING = 5.0  # seconds for a worker to start, to fit a lens and to say its last word
LOADING = 0.1  # seconds for each million of parameters
LOADED = 50.0  # seconds after which any is there: nobody is lent a GPU for longer than two minutes


def on_gpu(stream: Callable[..., Iterator[Item]]) -> Callable[..., Iterator[Item]]:
    """The same generator function, on a lent GPU where there is one. It must end its own errors: only their names would
    come through, and their texts, with values, would be logged."""
    if not LENT:
        return stream
    import spaces  # only a Space has it

    lent = spaces.GPU(duration=borrowed)(stream)

    @functools.wraps(stream)
    def prepared(*experiments: Experiment) -> Iterator[Item]:
        for one in experiments:  # before the loan: a worker that is forked then has it, and files are downloaded
            prepare(one.model, one.weights)
        yield from lent(*experiments)

    return prepared


def borrowed(*experiments: Experiment) -> float:
    """For how long the GPU is asked for: shorter is served sooner, and a visitor has a few minutes a day."""
    loading = min(LOADED, LOADING * max(size(one.model) for one in experiments))
    return round(sum(one.seconds for one in experiments) + STARTING + loading)


def size(model: str) -> float:
    """Millions of parameters, roughly: the layers' matrices and the table of words."""
    shape: Any = MODELS[model]
    return (
        shape.layers * shape.hidden * (4 * shape.hidden + 2 * shape.ffn) + (shape.vocabulary or 31e3) * shape.hidden
    ) / 1e6


def attacked(experiment: Experiment) -> Iterator[Message]:
    """The run's messages, wherever it is computed."""
    yield from guarded(messages(experiment))


attacked_on_gpu = on_gpu(attacked)


def told(experiment: Experiment) -> Iterator[Message]:
    """The run's messages; whatever goes wrong on the way is a message too."""
    return guarded(attacked_on_gpu(experiment))


def guarded(stream: Iterator[Message]) -> Iterator[Message]:
    """What goes wrong ends the stream with a message, never with a stack trace."""
    try:
        yield from stream
    except ValueError as problem:
        yield {"run": "", "error": str(problem)}
    except gr.Error as problem:  # no GPU is to be had, or it was taken away
        yield {"run": "", "error": str(problem.message)}
    except Exception as problem:
        yield {"run": "", "error": broken_off(problem)}
    finally:
        give_back()


def broken_off(problem: Exception) -> str:
    """A bug, or a device out of memory: the log gets the place, but no values."""
    print(place_of(problem))
    return f"the attack broke off ({type(problem).__name__}): try another model or slice"
