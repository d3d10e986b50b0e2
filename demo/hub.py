"""Where pretrained files come from: a package on disk, or the hub. Only safetensors, never pickled weights or code."""

import functools
import hashlib
import importlib.util
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download, try_to_load_from_cache

FILES = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"]


class ModelError(ValueError):
    """A model that cannot be had, or a sentence it cannot read; the message says what would be right."""


def packaged(package: str) -> Path | None:
    """The model's folder inside an installed package, whose own code is not run."""
    found = importlib.util.find_spec(package)
    return Path(found.submodule_search_locations[0]) / "model" if found and found.submodule_search_locations else None


def download(name: str, hub: str) -> Path:
    """The folder of the model's files, fetched from the hub where they are not on disk yet."""
    if not hub:
        raise ModelError(f"{name} has no pretrained weights: choose normal or uniform")
    try:
        return Path(snapshot_download(hub, allow_patterns=FILES))
    except Exception as problem:  # the hub's client raises many kinds; each means the files cannot be had
        raise ModelError(out_of_reach(name, hub, type(problem).__name__)) from problem


def why_not(name: str, hub: str) -> str | None:
    """Why the files cannot be had, or None; nothing is downloaded to find out."""
    if isinstance(try_to_load_from_cache(hub, "model.safetensors"), str):
        return None
    problem = _asked(hub)
    return out_of_reach(name, hub, problem) if problem else None


@functools.cache  # asked once: an answer may take seconds
def _asked(hub: str) -> str:
    try:
        HfApi().model_info(hub, timeout=3)
        return ""
    except Exception as problem:
        return type(problem).__name__


def out_of_reach(name: str, hub: str, problem: str) -> str:
    return (
        f"{name} pretrained comes from the hub ({hub}), which cannot be reached from here ({problem}): "
        "choose normal or uniform weights, or minilm"
    )


@functools.cache
def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
