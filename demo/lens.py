"""The lens: what the network makes of a token, guessed from the token alone.

At any depth, a token's state is roughly a linear image of its own embedding, whatever its context. The map is fitted on
random sentences: the attacker has the model, and needs no text of its own.

    lens = lens_at(model, 3, after_attention=False, length=11, seed=0)
    lens(embedded)  # (…, hidden) embedded tokens -> (…, hidden) about what layer 3 reads of them
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from demo.algebra import solve
from demo.keeping import kept_with_first
from demo.models import Model
from demo.turns import ticking

FITTED_TOKENS = 4500  # tokens of random text that the lens is fitted on
RIDGE = 1e-2
BATCH = 64  # sentences per forward pass: larger ones leave the CPU's cache
TOKENS = 2048  # the same of long sentences, whose forward passes would take long


def at_once(length: int) -> int:
    """How many sentences of that length go through a network together."""
    return max(1, min(BATCH, TOKENS // length))


@kept_with_first(1)
def frequent_ids(model: Model) -> Tensor:
    """Ordinary ids, the frequent first: marks and one-letter words, then the vocabulary, as BERT sorts it."""
    tokens = model.tokens(model.ordinary)
    short = [i for i, token in enumerate(tokens) if token in {"a", "i", *".,?!'\"-;:()"}]
    long = [i for i, token in enumerate(tokens) if len(token) > 1 and token != model.tokenizer.unk_token]
    return model.ordinary[torch.tensor(short + long, device=model.device)]


@torch.no_grad()
def random_sentences(model: Model, rows: int, length: int, seed: int) -> Tensor:
    """Text-like noise (rows, length): words drawn by Zipf's law and, for variety, a share drawn evenly."""
    generator = torch.Generator().manual_seed(seed)
    frequent, ordinary = frequent_ids(model).cpu(), model.ordinary.cpu()
    zipf = 1 / torch.arange(20, 20 + len(frequent))
    ids = frequent[torch.multinomial(zipf, rows * length, True, generator=generator)].view(rows, length)
    even = torch.rand(rows, length, generator=generator) < 0.4
    ids[even] = ordinary[torch.randint(len(ordinary), (int(even.sum()),), generator=generator)]
    ids[:, 0], ids[:, -1] = model.first_last
    return ids.to(model.device)


@dataclass(frozen=True, eq=False)
class Lens:
    """stream vector ≈ embedded token · matrix + shift, whatever the context."""

    matrix: Tensor  # (hidden, hidden)
    shift: Tensor  # (hidden,)

    @classmethod
    @torch.no_grad()
    def fit(cls, model: Model, states: Callable[[Tensor], Tensor], length: int, seed: int) -> "Lens":
        """`states` takes embedded sentences (rows, tokens, hidden) to the depth that the lens shall look at."""
        ids = random_sentences(model, max(64, FITTED_TOKENS // length), length, seed)
        embedded = model.net.embed(model.words[ids])
        stream = torch.cat([states(part) for part in ticking(embedded.split(at_once(length)))])
        inputs, outputs = embedded[:, 1:-1].flatten(0, 1), stream[:, 1:-1].flatten(0, 1)
        inputs_mean, outputs_mean = inputs.mean(0), outputs.mean(0)
        inputs, outputs = inputs - inputs_mean, outputs - outputs_mean
        ridge = RIDGE * inputs.square().sum() / inputs.shape[1]
        gram = inputs.T @ inputs + ridge * torch.eye(inputs.shape[1], device=model.device)
        matrix = solve(gram, inputs.T @ outputs)
        return cls(matrix, outputs_mean - inputs_mean @ matrix)

    def __call__(self, embedded: Tensor) -> Tensor:
        return embedded @ self.matrix + self.shift


@kept_with_first(16)  # all depths of a model of six layers, at one length
def lens_at(model: Model, layer: int, after_attention: bool, length: int, seed: int) -> Lens:
    """The lens on what a layer reads, or on what its feed-forward reads; kept, as it knows nothing of any leak."""
    state = model.net.attended if after_attention else model.net.inputs
    return Lens.fit(model, lambda embedded: state(embedded, layer), length, seed)


def embedded_at(model: Model, words: Tensor, places: Sequence[int]) -> Tensor:
    """(n,) ids -> (places, n, hidden): what layer 0 would read if each word stood at each of the places."""
    tables = model.net.embeddings
    where = tables.position_embeddings.weight[list(places)] + tables.token_type_embeddings.weight[0]
    return tables.LayerNorm(model.words[words] + where[:, None])
