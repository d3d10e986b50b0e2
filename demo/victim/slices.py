"""Which pieces of the gradient are exposed, and what share of the parameters they are.

A *piece* is one parameter tensor under a name of our own ("2.query.weight": the query matrix of layer 2). A *slice* is
a choice of pieces, for one layer or several:

    pieces = select(model, "query", (2,))
    count(pieces), share(model, pieces)  # (147456, 0.0065) on minilm
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from demo.victim.model import Model


@dataclass(frozen=True)
class Piece:
    """One parameter tensor: the `kind` (weight or bias) of a `part`, in a `layer` or outside of them (None)."""

    layer: int | None
    part: str
    kind: str
    size: int

    @property
    def module(self) -> str:
        return self.part if self.layer is None else f"{self.layer}.{self.part}"

    @property
    def name(self) -> str:
        return f"{self.module}.{self.kind}"


@dataclass(frozen=True)
class Slice:
    """A choice of parts; `of_layer` says that the user picks the layers, `weights_only` that biases stay private."""

    title: str
    short: str  # as the drawing has room for it
    about: str  # for people, in a sentence
    parts: tuple[str, ...]
    of_layer: bool = False
    weights_only: bool = False


LAYER, HEAD, TABLES = "every part of a layer", "every part after the layers", "every part before them"
SLICES = {
    "all": Slice(
        "everything", "everything", "The whole gradient, as federated learning shares it.", (LAYER, HEAD, TABLES)
    ),
    "encoder": Slice("every Transformer layer", "all layers", "All layers, but neither embeddings nor head.", (LAYER,)),
    "layer": Slice(
        "one Transformer layer", "layer", "All matrices, biases and norms of one layer.", (LAYER,), of_layer=True
    ),
    "qkv": Slice(
        "attention query + key + value",
        "QKV",
        "The three matrices with which attention reads its input.",
        ("query", "key", "value"),
        True,
        True,
    ),
    "query": Slice("attention query", "Q", "Turns each token into what it looks for.", ("query",), True, True),
    "key": Slice("attention key", "K", "Turns each token into what it can be found by.", ("key",), True, True),
    "value": Slice("attention value", "V", "Turns each token into what it passes on.", ("value",), True, True),
    "attention-output": Slice(
        "attention output", "O", "Joins what the attention heads gathered.", ("attention-output",), True, True
    ),
    "ffn-gate": Slice(
        "feed-forward gate", "gate", "Decides how much of each widened token goes on.", ("ffn-gate",), True, True
    ),
    "ffn-in": Slice("feed-forward in", "F₁", "Widens each token before its non-linearity.", ("ffn-in",), True, True),
    "ffn-out": Slice("feed-forward out", "F₂", "Narrows each token after its non-linearity.", ("ffn-out",), True, True),
    "head": Slice("pooler + classifier", "pooler + head", "What turns the last state into a label.", (HEAD,)),
    "embeddings": Slice(
        "word + position embeddings", "embeddings", "The tables of word and position vectors.", ("word", "position")
    ),
}


def all_pieces(model: Model) -> list[Piece]:
    pieces = []
    for name, module in model.net.parts().items():
        layer, _, part = name.rpartition(".")
        for kind, parameter in module.named_parameters():
            pieces.append(Piece(int(layer) if layer else None, part, kind, parameter.numel()))
    return pieces


def slices_of(model: Model) -> dict[str, Slice]:
    """Those of the table that this model has, in their order."""
    parts = {part for piece in all_pieces(model) for part in (piece.part, *groups_of(model, piece))}
    return {name: named(model, name) for name, slice in SLICES.items() if parts & set(slice.parts)}


def named(model: Model, name: str) -> Slice:
    """A slice as this model's own parts call it."""
    slice, net = SLICES[name], model.net
    if name == "head":
        title = " + ".join("word table" if part in net.TABLES else part.replace("-", " ") for part in net.after_layers)
        about = slice.about if net.labels else "What turns each state into the next word."
    elif name == "embeddings":
        title, about = f"{' + '.join(part for part in slice.parts if part in net.TABLES)} embeddings", slice.about
    else:
        return slice
    if not set(net.TABLES).isdisjoint(net.after_layers):
        about += " The table of words is the output matrix too (tied)."
    return replace(slice, title=title, about=about, short=slice.short if title == slice.title else name)


def matrices_of(model: Model) -> dict[str, Slice]:
    """The slices that are one matrix of a layer: what a map has a column for."""
    return {
        name: slice
        for name, slice in slices_of(model).items()
        if slice.of_layer and len(slice.parts) == 1 and slice.parts != (LAYER,)
    }


def holds(slice: Slice, other: Slice) -> bool:
    """Whether one slice of a layer exposes all that another does."""
    return slice is not other and (slice.parts == (LAYER,) or set(other.parts) < set(slice.parts))


def groups_of(model: Model, piece: Piece) -> tuple[str, ...]:
    """Two of a table of words that is the output matrix too."""
    if piece.layer is not None:
        return (LAYER,)
    places = {TABLES: model.net.TABLES, HEAD: model.net.after_layers}
    return tuple(group for group, parts in places.items() if piece.part in parts)


def select(model: Model, name: str, layers: Sequence[int] = (), frozen_embeddings: bool = False) -> tuple[Piece, ...]:
    """The pieces of a slice; `layers` matters only to the slices that are a choice of layers.

    A client that does not train its embeddings has no gradient of them to share.
    """
    if name not in SLICES:
        raise ValueError(f"unknown slice {name!r}: choose one of {', '.join(SLICES)}")
    chosen = SLICES[name]
    own = [piece for piece in all_pieces(model) if {piece.part, *groups_of(model, piece)} & set(chosen.parts)]
    if not own:
        raise ValueError(f"{model.id} has no {chosen.title}: choose one of {', '.join(slices_of(model))}")
    if chosen.of_layer:
        if not layers:
            raise ValueError(f"slice {name!r} needs a layer: 0 to {model.layers - 1}")
        wrong = [layer for layer in layers if not 0 <= layer < model.layers]
        if wrong:
            raise ValueError(f"layer {wrong[0]} does not exist: {model.id} has layers 0 to {model.layers - 1}")
    pieces = tuple(
        piece
        for piece in own
        if (not chosen.of_layer or piece.layer in layers)
        and (not chosen.weights_only or piece.kind == "weight")
        and not (frozen_embeddings and piece.part in model.net.TABLES)
    )
    if not pieces:
        raise ValueError(f"slice {name!r} is empty: the client's embeddings are frozen, so choose another slice")
    return pieces


def count(pieces: Sequence[Piece]) -> int:
    return sum(piece.size for piece in pieces)


def share(model: Model, pieces: Sequence[Piece]) -> float:
    return count(pieces) / count(all_pieces(model))
