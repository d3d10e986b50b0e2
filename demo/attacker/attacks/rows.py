"""Rows: the gradient of the embedding tables is the sentence, lying open.

Only the rows of words that occur are non-zero: the bag of tokens. Word and position are added before anything else
happens, so both tables receive the same vectors δ: position row p is δ_p, and word row v is the sum of δ_p over v's
places. Solving `word row = indicator · position rows` for the indicator therefore puts every word in its place. (The
papers stop at the bag.)
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from demo.attacker.attacks.base import Budget, Snapshot, best_certificate, labels_of, snapshot
from demo.attacker.attacks.objectives import OF_PROOF
from demo.attacker.certificate import Certificate
from demo.attacker.leak import Leak
from demo.attacker.subspace import occupied, read_length


class Rows:
    """Reads the word and position embeddings' gradient rows; instant."""

    about = "Reads the words and their places off the rows of the embedding tables that carry gradient."

    def supports(self, leak: Leak) -> str | None:
        if leak.weight("word") is None:
            return "the word-embedding gradient is not exposed (slices all and embeddings expose it)"
        if not leak.model.net.both_ways and not leak.model.net.labels:
            return "the last word is nothing but a target in this model: it has no row of its own"
        if leak.batch > 1:
            return "the embedding rows sum over the batch's sentences: rows reads one sentence"
        return None

    def run(self, leak: Leak, budget: Budget, seed: int = 0) -> Iterator[Snapshot]:
        words = bag(leak)
        if not len(words):
            yield snapshot(leak.model, budget, 1, leak.model.blank(read_length(leak) or 3), torch.nan, "all is noise")
            return
        ids = order(leak, words)
        if ids is not None:
            certificate, labels = best_certificate(leak, ids)
            certificate = certificate or rebuilt(leak, ids)
            yield snapshot(
                leak.model,
                budget,
                1,
                ids,
                certificate.residual,
                "read off the embedding rows",
                certificate=certificate,
                labels=labels,
                meaning=OF_PROOF[certificate.proof],
            )
            return
        # Without position rows the order is unknown: the bag as it lies in the vocabulary, repeats unknown too.
        first, last = leak.model.ends
        inner = [int(word) for word in words if int(word) not in (*first, *last)]
        ends = len(first) + len(last)
        length = read_length(leak) or len(inner) + ends
        inner = (inner + [inner[-1]] * length)[: length - ends]
        ids = torch.tensor([*first, *inner, *last], device=leak.model.device)
        yield snapshot(
            leak.model, budget, 1, ids, torch.nan, "bag of tokens, order unknown", labels=labels_of(leak)[:1]
        )


def bag(leak: Leak) -> Tensor:
    """The ids of the tokens that occur, specials included."""
    return occupied(leak, "word")


def rebuilt(leak: Leak, ids: Tensor) -> Certificate:
    """Under dropout, another proof: each word's row is the sum of the rows of its places, and no row is left over."""
    rows, positions = leak.weight("word"), leak.weight("position")
    assert rows is not None
    assert positions is not None
    ours = torch.zeros_like(rows).index_add(0, ids, positions[: len(ids)])
    return Certificate(float((ours - rows).norm() / rows.norm()), proof="rows")


def order(leak: Leak, words: Tensor) -> Tensor | None:
    """The ids in their places, or None where the position rows are not exposed."""
    rows, positions = leak.weight("word"), leak.weight("position")
    if rows is None or positions is None:
        return None
    length = leak.length or int(occupied(leak, "position").max()) + 1
    known = positions[:length].cpu().double()
    if leak.sparse or not all(defense.sizes for defense in leak.defenses):
        return words[_alike(known, rows[words].cpu().double()).argmax(1).to(words.device)]
    places = torch.linalg.lstsq(known.T, rows[words].cpu().double().T).solution  # (length, words), 0 or 1
    return words[places.argmax(1).to(words.device)]


def _alike(places: Tensor, words: Tensor) -> Tensor:
    """(places, words): the cosine between their rows, over the numbers that were sent of both."""
    both = (places != 0).double() @ (words != 0).double().T
    sizes = (places.square() @ (words != 0).double().T) * ((places != 0).double() @ words.square().T)
    return torch.where(both > 0, places @ words.T / sizes.clamp_min(1e-300).sqrt(), -1.0)
