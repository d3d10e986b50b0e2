"""Several experiments as one question: where does a model leak, and how strong must a defense be?"""

from collections.abc import Iterator
from dataclasses import replace

from demo.engine import Experiment
from demo.models import outline

COMPONENTS = ("query", "key", "value", "attention-output", "ffn-in", "ffn-out")


def cells(base: Experiment) -> Iterator[Experiment]:
    """Every place of the model that may leak alone, the quick ones first: the embeddings, then layer by layer."""
    yield replace(base, slice="embeddings", layers=())
    for layer in range(outline(base.model).layers):
        for component in COMPONENTS:
            yield replace(base, slice=component, layers=(layer,))
    yield replace(base, slice="head", layers=())
