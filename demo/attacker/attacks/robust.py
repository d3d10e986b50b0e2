"""Robust span check: read the sentence off one attention matrix of layer 0 *through dropout*, and the mask with it.

With dropout the layer reads e ⊙ m / (1 - rate): a multiple of the embedding e on the coordinates that were kept, zero
on the others. So ask for a vector of the span that agrees with e on most coordinates. Iteratively reweighted least
squares finds it: coordinates that fit badly lose their say, round by round. Of the words whose ordinary residual is
smallest, the one that agrees on the most coordinates is the word, and the coordinates that disagree are the mask.

The weights 1/r² belong to the penalty log r, which forgets a misfit altogether; least absolute deviations (1/r) give
out at a rate of 0.4, or at 0.3 with 25 tokens.
"""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from demo.attacker.algebra import solve
from demo.attacker.attacks.base import UNKNOWN_LENGTH, Budget, Candidates, Snapshot, snapshot
from demo.attacker.attacks.objectives import COORDINATES
from demo.attacker.attacks.span import RUNNERS_UP, SHOWN, first_view, residuals
from demo.attacker.certificate import Certificate
from demo.attacker.leak import Leak
from demo.attacker.lens import embedded_at
from demo.attacker.subspace import View, read_length
from demo.turns import tick

SHORTLIST = 150  # words with the smallest ordinary residual; the true one was never beyond the 20th
ROUNDS = 30
AGREES = 0.02  # a coordinate agrees if it is off by less than this share of the vector's mean size
DEVIATIONS = 5  # how far, in standard deviations, dropout may exceed its rate before a word is doubted


class RobustSpan:
    """The span check for a client that trains with dropout."""

    about = "Reads the sentence through dropout: the word that agrees with the span of layer 0 on most coordinates."

    def supports(self, leak: Leak) -> str | None:
        view, length = readable_view(leak), read_length(leak)
        if leak.batch > 1:
            return "it reads one sentence"
        if view is None:
            return "no query, key or value matrix of a layer that reads the embeddings (layer 0) is exposed"
        if length is None:
            return UNKNOWN_LENGTH
        if length > view.bases[0].shape[0] // 4:
            return f"{length} tokens are too many for a width of {view.bases[0].shape[0]}: any word would agree"
        return None

    def run(self, leak: Leak, budget: Budget, seed: int = 0) -> Iterator[Snapshot]:
        view, length, model = readable_view(leak), read_length(leak), leak.model
        assert view is not None
        assert length is not None
        ids, sure = model.blank(length), torch.zeros(length)
        others = ids[:, None].repeat(1, RUNNERS_UP).cpu()
        sure[0] = sure[-1] = 1
        picture = partial(snapshot, model, budget, confidence=sure, runners_up=others, meaning=COORDINATES)
        kept = torch.ones(length, model.hidden, dtype=torch.bool)
        for end in (0, -1):
            kept[end] = agreement(leak, view, ids[end][None], end % length)[0].cpu()
        fewest, expected = 1.0, expected_share(leak, view)
        for place in range(1, length - 1):
            words = model.ordinary[residuals(leak, view, place).topk(SHORTLIST, largest=False).indices]
            agrees = agreement(leak, view, words, place)
            share, order = agrees.float().mean(1).sort(descending=True)
            words = words[order]
            ids[place], others[place] = words[0], words[1 : 1 + RUNNERS_UP].cpu()
            kept[place], fewest = agrees[order[0]].cpu(), min(fewest, float(share[0]))
            sure[place] = ((share[0] - share[1]) / expected).clamp(0, 1)
            stage = (
                f"place {place} of {length - 2}: one word agrees on {100 * float(share[0]):.0f} % of its coordinates"
            )
            candidates = Candidates(place, words[:SHOWN].cpu(), 1 - share[:SHOWN].cpu())
            yield picture(place, ids, 1 - fewest, stage, candidates=candidates, kept=_own(view, kept))
            if budget.over(place):
                return
        certificate = Certificate(1 - fewest, 1 - least_share(leak, view), "span")
        stage = f"every word agrees on {100 * fewest:.0f} % or more"
        proof: dict[str, Any] = {"certificate": certificate, "kept": _own(view, kept), "labels": leak.labels or ()}
        yield picture(length - 1, ids, 1 - fewest, stage, **proof)


def readable_view(leak: Leak) -> View | None:
    """Layer 0's query, value or key; an attention output mixes the coordinates that dropout kept and dropped."""
    view = first_view(leak)
    return view if view and view.part != "attention-output" else None


def expected_share(leak: Leak, view: View) -> float:
    """The coordinates that dropout leaves in agreement; of a difference (key), those that it kept on both sides."""
    return (1 - leak.dropout) ** (2 if view.centred else 1)


def least_share(leak: Leak, view: View) -> float:
    """The smallest share of agreeing coordinates that dropout's chance explains."""
    expected = expected_share(leak, view)
    return expected - DEVIATIONS * math.sqrt(max(expected * (1 - expected), 1e-2) / leak.model.hidden)


def _own(view: View, kept: Tensor) -> Tensor | None:
    """A difference's agreement is not the word's own mask."""
    return None if view.centred else kept


@torch.no_grad()
def agreement(leak: Leak, view: View, words: Tensor, place: int) -> Tensor:
    """(n,) words at a place -> (n, width) bool: where a vector of the span agrees with each."""
    vectors = embedded_at(leak.model, words, [place])[0]
    if view.centred:
        vectors = vectors - embedded_at(leak.model, words.new_tensor(leak.model.ends[0]), [0])[0]
    vectors, basis = vectors.cpu().double(), view.bases[0].cpu().double()  # the weights differ by a million
    size, rank = vectors.abs().mean(1, keepdim=True), basis.shape[1]
    pairs = (basis[:, :, None] * basis[:, None]).flatten(1)  # (width, rank²): a product with the weights is the Gram
    weights = torch.ones_like(vectors)
    for n in range(ROUNDS):
        tick()
        gram = (weights @ pairs).view(-1, rank, rank)
        gram = gram + 1e-9 * gram.diagonal(dim1=1, dim2=2).mean(1)[:, None, None] * torch.eye(rank, dtype=gram.dtype)
        fitted = solve(gram, (weights * vectors) @ basis)
        off = (vectors - fitted @ basis.T).abs() / size
        weights = 1 / (off + max(1e-3, 0.3 * 0.75**n)).square()
        weights = weights / weights.amax(1, keepdim=True)
    return off < AGREES
