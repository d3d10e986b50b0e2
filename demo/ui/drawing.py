"""The model as blocks to click: what the drawing (assets/stage/drawing.js) is told, and what it sends back."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from demo.client.client import Client
from demo.screen.messages import exposed
from demo.victim.models import outline
from demo.victim.slices import SLICES, Slice, count, holds, select, share, slices_of


def drawing_of(model: str, slice: str, layers: Sequence[int], client: Client | None = None, given: str = "") -> str:
    """What the drawing shows: the model's blocks, which of them are exposed, and what share that is.

    A new `given` tells the script that this was picked outside of the drawing.
    """
    net, client = outline(model), client or Client()
    slice = slice if slice in slices_of(net) else "layer"  # another model's own
    layers = [layer for layer in layers if 0 <= layer < net.layers] or [min(2, net.layers - 1)]
    try:
        net = net.told_by(client.task)
        pieces = select(net, slice, layers, client.frozen_embeddings)
        shown = exposed(count(pieces), share(net, pieces))
    except ValueError as nothing:
        shown = f"{nothing}"
    known = slices_of(net)
    spec = {
        "model": net.title,
        "layers": net.layers,
        "decoder": net.net.decoder,
        "slice": slice,
        "chosen": layers if SLICES[slice].of_layer else [],
        "exposed": shown,
        "given": given,
        "sizes": {name: f"{count(select(net, name, [0])):,}" for name in known},
        "slices": {name: told_of_slice(one, known) for name, one in known.items()},
        "help": {name: one.about for name, one in known.items()},
    }
    return json.dumps(spec)


class Picked(BaseModel):
    """What is read of a drawing that a browser sends back."""

    slice: str
    chosen: list[int]


def told_of_slice(slice: Slice, known: Mapping[str, Slice]) -> dict[str, Any]:
    """What the drawing needs to know of a block: its names, and which blocks glow with it."""
    inside = [name for name, other in known.items() if other.of_layer and holds(slice, other)] if slice.of_layer else []
    return {"title": slice.title, "short": slice.short, "of_layer": slice.of_layer, "holds": inside}


def chosen_in(drawing: str) -> tuple[str, list[int]]:
    """The slice and the layers picked in a drawing; the value comes from a browser, so it is checked."""
    try:
        picked = Picked.model_validate_json(drawing)
    except ValidationError:
        raise ValueError("the choice of the exposed part cannot be read: pick a block of the drawing") from None
    if picked.slice not in SLICES:
        raise ValueError(f"unknown slice {picked.slice[:40]!r}: choose one of {', '.join(SLICES)}")
    return picked.slice, picked.chosen
