"""Span check: read the sentence off one attention matrix of a layer that reads the embeddings themselves.

DAGER (NeurIPS 2024) tests embeddings against the span of two query matrices with thresholds. Here one matrix is enough,
of any kind, and no threshold is needed: at each place the word with the smallest residual is taken. Key works by
differences to the first token, attention output head by head (`demo.attacker.subspace.View` says why).
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from demo.attacker.attacks.base import UNKNOWN_LENGTH, Budget, Candidates, Snapshot, best_certificate, snapshot
from demo.attacker.attacks.objectives import WORD
from demo.attacker.leak import Leak
from demo.attacker.subspace import View, read_length, views
from demo.turns import tick

CHUNK = 4096  # words per matrix product
RUNNERS_UP = 3
SHOWN = 24  # candidates per place on screen


class Span:
    """Finds, place by place, the word whose embedding lies in the leaked subspace; exact and about a second."""

    about = "Reads the sentence off a matrix of layer 0: at each place one word alone lies in the span of the gradient."

    def supports(self, leak: Leak) -> str | None:
        if leak.batch > 1:
            return "it reads one sentence: search takes a batch apart"
        if leak.dropout:
            return "the client trains with dropout, which moves the embeddings out of the span: use robust-span"
        view = first_view(leak)
        if view is None:
            return "no attention matrix of a layer that reads the embeddings (layer 0) is exposed"
        width, length = view.bases[0].shape[0], read_length(leak)
        if length is None:
            return UNKNOWN_LENGTH
        if length >= width - 1:  # less one, as a norm may fix the mean
            return f"{length} tokens span the whole width of {width}: every word would lie in it"
        if view.rank + view.centred < length:
            return f"the exposed matrix has rank {view.rank}, too low to hold all of {length} tokens"
        return None

    def run(self, leak: Leak, budget: Budget, seed: int = 0) -> Iterator[Snapshot]:
        view, length = first_view(leak), read_length(leak)
        assert view is not None
        assert length is not None
        ids = leak.model.blank(length)
        sure, others = torch.zeros(length), ids[:, None].repeat(1, RUNNERS_UP).cpu()
        sure[0] = sure[-1] = 1
        picture = partial(snapshot, leak.model, budget, confidence=sure, runners_up=others, meaning=WORD)
        worst = 0.0  # the largest residual so far: what the span leaves unexplained
        for place in range(1, length - 1):
            nearest = residuals(leak, view, place).topk(SHOWN, largest=False)
            words, distances = leak.model.ordinary[nearest.indices].cpu(), nearest.values.clamp_min(0).cpu()
            ids[place], others[place] = words[0], words[1 : 1 + RUNNERS_UP]
            sure[place] = float(1 - distances[0] / distances[1].clamp_min(1e-12))
            worst = max(worst, float(distances[0]))
            candidates = Candidates(place, words, distances)
            stage = f"place {place} of {length - 2}: one word in {len(leak.model.ordinary):,} lies in the span"
            yield picture(place, ids, worst, stage, candidates=candidates)
            if budget.over(place):
                return
        certificate, labels = best_certificate(leak, ids)
        proof: dict[str, Any] = {"certificate": certificate, "labels": labels, "candidates": candidates}
        yield picture(length - 1, ids, worst, "every place read off the span", **proof)


def first_view(leak: Leak) -> View | None:
    """The view whose features depend on one token and its place alone."""
    attention = ("query", "value", "key", "attention-output")
    for view in views(leak):
        exact = view.layer < leak.model.layers and leak.model.net.reads_embeddings(view.layer)
        # A decoder reads the embeddings too, but one token asks there: what it gathers are sums, not tokens.
        asked = view.read_row_only or view.layer == leak.model.net.decoder
        if view.part in attention and exact and not asked:
            return view
    return None


@torch.no_grad()
def residuals(leak: Leak, view: View, place: int) -> Tensor:
    """How far each ordinary word at that place lies outside of the subspace, as a share of its length: (words,)."""
    net, words = leak.model.net, leak.model.words
    places = net.places(slice(None))
    start = net.placed(words[leak.model.ends[0][0]] + places[0]) if view.centred else None
    outside = []
    for part in leak.model.ordinary.split(CHUNK):
        tick()
        stream = net.placed(words[part] + places[place])
        stream = stream if start is None else stream - start
        total = torch.zeros(len(part), device=stream.device)
        for features, basis in zip(view.features(net, stream), view.bases, strict=True):
            total += 1 - (features @ basis).square().sum(1) / features.square().sum(1)
        outside.append(total / len(view.bases))
    return torch.cat(outside)
