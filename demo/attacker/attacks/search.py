"""Search: look for the sentence whose gradient is the leaked one, and prove it.

Where the slice allows, the embedding rows or the layer-0 span give the sentence at once; elsewhere it is searched for
(`attacks.best_first`). A guess that reproduces the leaked gradient to rounding *is* the sentence: that is the
certificate. A batch is searched for sentence by sentence (`attacks.batch`), a decoder's sentence word by word
(`attacks.prefix_walks`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from demo.attacker.attacks.base import (
    UNKNOWN_LENGTH,
    UNKNOWN_LENGTHS,
    Budget,
    Snapshot,
    best_certificate,
    labels_of,
    snapshot,
)
from demo.attacker.attacks.batch import BatchSearch, cannot_be_told_apart
from demo.attacker.attacks.beam import DecoderSearch
from demo.attacker.attacks.best_first import BestFirst, Effort
from demo.attacker.attacks.objectives import SPAN, VECTOR
from demo.attacker.attacks.prefix_walks import cannot_be_walked, walk
from demo.attacker.attacks.readout import ReadoutSearch
from demo.attacker.attacks.rows import Rows
from demo.attacker.attacks.span import Span
from demo.attacker.decoder import DecoderJudge, asking_view
from demo.attacker.leak import Leak
from demo.attacker.readout import ReadoutJudge
from demo.attacker.subspace import read_length, read_lengths, searchable

GIVE_UP = 5  # where no guess can be proven, one that stays the best so often is taken for the sentence


@dataclass(frozen=True)
class Search(Effort):
    """Best-first search judged by one matrix's subspace; stops when the gradient certifies the guess.

    The settings are those of this search; where one vector is all that leaks, `attacks.readout` has its own.
    """

    about: ClassVar = (
        "Our strongest: searches whole sentences, guided by the span of the exposed gradient, and stops only when the "
        "guess's own gradient equals the leaked one."
    )

    def supports(self, leak: Leak) -> str | None:
        if not leak.model.net.both_ways:
            return None if _rows_read_all(leak) else cannot_be_walked(leak)
        if Rows().supports(leak) is None:
            return None
        if read_lengths(leak) is None:
            return UNKNOWN_LENGTH if leak.batch == 1 else UNKNOWN_LENGTHS
        if next(searchable(leak), None) is None and asking_view(leak) is None:
            return "no exposed matrix tells words apart: the tokens fill its whole width, or a decoder mixed them all"
        return cannot_be_told_apart(leak) if leak.batch > 1 else None

    def run(self, leak: Leak, budget: Budget, seed: int = 0) -> Iterator[Snapshot]:
        if not leak.model.net.both_ways:
            yield from Rows().run(leak, budget, seed) if _rows_read_all(leak) else walk(leak, budget, seed)
            return
        step = 0
        for shortcut in (Rows(), Span()):
            if shortcut.supports(leak) is None:
                for shot in shortcut.run(leak, budget, seed):
                    step += 1
                    yield replace(shot, step=step)
                if shot.certified:
                    return
        if leak.batch > 1:
            yield from BatchSearch(self, leak, budget, seed).run()
            return
        length, asked = read_length(leak), asking_view(leak)
        view = next(searchable(leak), None) or asked
        if length is None or view is None:
            return
        yield snapshot(
            leak.model,
            budget,
            step + 1,
            leak.model.blank(length),
            torch.inf,
            f"fitting a lens on {view.piece.name}",
            confidence=torch.zeros(length),
            meaning=VECTOR if view.read_row_only or view is asked else SPAN,
        )
        if view is asked:
            judge = DecoderJudge(leak, view, length, seed, labels_of(leak)[0])
            yield from DecoderSearch(leak, judge, length, seed).run(budget, step + 1)
        elif view.read_row_only:
            readout = ReadoutJudge(leak.model, view, length, seed)
            yield from ReadoutSearch(leak, readout, length, seed).run(budget, step + 1)
        else:
            yield from proved(BestFirst(self, leak.model, view, [length], seed), leak, budget, step + 2)


def _rows_read_all(leak: Leak) -> bool:
    """Of a decoder that is asked for a label: rows without position rows would only tell the bag."""
    exact = leak.weight("position") is not None and not leak.defenses and not leak.dropout
    return exact and Rows().supports(leak) is None


def proved(search: BestFirst, leak: Leak, budget: Budget, step: int) -> Iterator[Snapshot]:
    """A snapshot per chunk of scored sentences: often enough to be watched, and to be stopped at once."""
    yield _outlook(search, budget, step)
    known, proof = None, best_certificate(leak, search.tensor([search.best])[0])
    for taken, move in enumerate(search.moves(), step + 1):
        if search.best != known:
            known, proof = search.best, best_certificate(leak, search.tensor([search.best])[0])
        certificate, labels = proof
        proven = certificate is not None and certificate.holds
        look = search.look(proven)
        yield snapshot(
            leak.model,
            budget,
            taken,
            look.ids,
            search.best_score,
            move,
            look.points,
            look.sure,
            look.others,
            certificate=certificate,
            labels=labels,
            meaning=SPAN,
        )
        given_up = leak.veiled and search.stuck[search.best] >= GIVE_UP
        if budget.over(taken) or proven or given_up:
            return


def _outlook(search: BestFirst, budget: Budget, step: int) -> Snapshot:
    """Before the first guess: any of the shortlisted words may stand anywhere."""
    ids, table = search.tensor(search.blanks[:1])[0], search.model.words
    points = table[ids].clone()
    points[search.model.inside(len(ids))] = table[search.words].mean(0)
    return snapshot(
        search.model,
        budget,
        step,
        ids,
        torch.inf,
        f"{len(search.words):,} words may occur: trying them",
        points,
        confidence=torch.zeros(len(ids)),
        meaning=SPAN,
    )
