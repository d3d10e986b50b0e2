"""Where pretrained files come from: a package on disk, or the hub. Only safetensors, never pickled weights or code."""

import functools
import hashlib
import importlib.util
import threading
import time
from pathlib import Path

from huggingface_hub import HfApi, constants, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import RepositoryNotFoundError
from safetensors import safe_open
from torch import Tensor

from demo.turns import tick, ticking

TIMEOUT = 3.0  # seconds that the hub has for its answer
PATIENCE = 1.5  # seconds that a page waits for it, which then has to go on
LOOK = 0.1  # seconds between two looks at a download
AGAIN = 60.0  # seconds after which a hub that could not be reached is asked once more
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
    download = Download(hub)
    while not download.over.wait(LOOK):
        tick(f"fetching {name} from the Hugging Face hub, once")
    if download.problem:
        raise ModelError(out_of_reach(name, hub, in_words(download.problem))) from download.problem
    return download.folder


class Download:
    """In the background, so that whoever waits can be stopped; it then goes on, and the next one finds the files."""

    def __init__(self, hub: str) -> None:
        self.over = threading.Event()
        self.folder = Path()
        self.problem: Exception | None = None
        threading.Thread(target=self.fetch, args=(hub,), daemon=True).start()

    def fetch(self, hub: str) -> None:
        try:
            self.folder = Path(snapshot_download(hub, allow_patterns=FILES))
        except Exception as problem:  # the hub's client raises many kinds; each means the files cannot be had
            self.problem = problem
        self.over.set()


def cached(hub: str) -> Path | None:
    """The folder of files that were fetched from the hub before."""
    found = try_to_load_from_cache(hub, "model.safetensors") if hub else None
    return Path(found).parent if isinstance(found, str) else None


def why_not(name: str, hub: str, patience: float | None = None) -> str | None:
    """Why the files cannot be had, or None; nothing is downloaded to find out, nobody waits longer than asked."""
    if cached(hub):
        return None
    with _LOCK:
        known = _QUESTIONS.get(hub)
        if known is None or known.stale:
            known = _QUESTIONS[hub] = Question(hub)
    known.answered.wait(patience)
    return out_of_reach(name, hub, known.problem) if known.problem else None


class Question:
    """Whether the hub gives a model away, asked in the background: an answer may take seconds, a page must not."""

    def __init__(self, hub: str) -> None:
        self.answered, self.asked = threading.Event(), time.monotonic()
        self.problem = "which has not answered yet"
        threading.Thread(target=self.ask, args=(hub,), daemon=True).start()

    def ask(self, hub: str) -> None:
        try:
            HfApi().model_info(hub, timeout=TIMEOUT)
            self.problem = ""
        except Exception as problem:
            self.problem = in_words(problem)
        self.answered.set()

    @property
    def stale(self) -> bool:
        """A network that was down may be up again."""
        return self.answered.is_set() and bool(self.problem) and time.monotonic() - self.asked > AGAIN


_QUESTIONS: dict[str, Question] = {}
_LOCK = threading.Lock()


def in_words(problem: Exception) -> str:
    """Why the hub does not give the files, for people."""
    if constants.HF_HUB_OFFLINE:
        return "and this server is set to work offline"
    if isinstance(problem, RepositoryNotFoundError):
        return "which does not give it to this server"
    return "which this server cannot reach"


def out_of_reach(name: str, hub: str, problem: str) -> str:
    return (
        f"{name} with pretrained weights has to be fetched from the Hugging Face hub ({hub}), {problem}: choose "
        "normal or uniform weights, which are drawn at random, or the model minilm"
    )


def tensors_in(folder: Path) -> dict[str, Tensor]:
    """The numbers of a model, float32; those that are stored so are read where they are used, and never copied."""
    with safe_open(folder / "model.safetensors", framework="pt") as stored:
        return {name: stored.get_tensor(name).float() for name in ticking(stored.keys(), "reading the model's weights")}


@functools.cache
def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
