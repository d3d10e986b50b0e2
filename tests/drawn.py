"""Small decoders with drawn numbers, which expect no word: the lens and the gradient have to do all the work."""

from dataclasses import replace

import torch

from demo.attacker.attacks import ATTACKS, Budget, Snapshot
from demo.attacker.leak import Leak
from demo.client.secret import Secret
from demo.client.share import share
from demo.victim.model import Model
from demo.victim.slices import select
from tests.conftest import LONG, small

SENTENCE = "a cat sat on the mat near my red door"
REPEATED = "the the the cat"
BATCH = "a cat sat on the mat\nthe dog ate my red fish\nwe met near the old harbour"
WORDS = 700  # that may occur: so few go through the layers in no time
KINDS = {
    "gpt2": ("gpt2", {}),
    "llama, tied": ("llama", {"key_heads": 2}),
    "llama, untied": ("llama", {"key_heads": 2, "tied": False}),
}


def drawn(kind: str, task: str = "next-word") -> Model:
    """Wide enough that heads have room for the sums that tell an order."""
    family, own = KINDS[kind]
    model = small(family, width=96, **own)
    told = model.encode(" ".join((SENTENCE, REPEATED, *BATCH.splitlines())))
    others = model.ordinary[torch.randperm(len(model.ordinary), generator=torch.Generator().manual_seed(0))[:WORDS]]
    return replace(model, ordinary=torch.cat([told, others]).unique(), net=model.net.told_by(task))


def leak_of(
    model: Model, name: str, layers: tuple[int, ...] = (), text: str = SENTENCE, dropout: float = 0.0, **told: bool
) -> Leak:
    """A batch has one sentence a line; label 1 for all."""
    sentences = [model.encode(line) for line in text.splitlines()]
    secret = Secret.of(model, sentences, [1] * len(sentences), dropout)
    return share(model, secret, select(model, name, layers), **told)


def last(leak: Leak, name: str = "search", steps: int = 200) -> Snapshot:
    *_, shot = ATTACKS[name].run(leak, Budget(LONG, steps), 0)
    return shot
