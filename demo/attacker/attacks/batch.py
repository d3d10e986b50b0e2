"""Batches: one gradient of several sentences, and the search for each of them in turn.

The span of a batch's gradient holds the words of all its sentences. Where a matrix of layer 0 is exposed, that is a bag
of words to choose from, whatever the place: positions add to words before the norm, so with a few words in several
places, any of the words lies in the span at any place. (DAGER takes the candidates of each place for what stands there,
and tries their combinations.) Which words belong together, and in which order, a matrix behind an attention tells: a
token's state there depends on its sentence, so it lies in the span only if the whole sentence is right. One search
looks for whichever sentence it comes upon; once that is found, the next has to cover what it leaves of the span.
Where no such matrix leaks, the gradient itself has to tell (`attacks.batch_by_words`).
"""

from collections.abc import Generator, Iterator

import torch
from torch import Tensor

from demo.attacker.attacks.base import Budget, Candidates, Snapshot, best_certificate, snapshot
from demo.attacker.attacks.batch_by_words import Assembly
from demo.attacker.attacks.best_first import BestFirst, Effort
from demo.attacker.attacks.objectives import SPAN
from demo.attacker.attacks.robust import SHORTLIST, agreement, least_share, readable_view
from demo.attacker.attacks.sentence_moves import Sentence
from demo.attacker.attacks.span import SHOWN, first_view, residuals
from demo.attacker.leak import Leak
from demo.attacker.subspace import View, tells_words, views

IN_SPAN = 1e-4  # what leaves less outside of the span lies in it: the truth leaves 1e-6, the nearest others 1e-2
SETTLED = 3  # where no sentence lies in the span (dropout, noise), one that is the best so often is taken for found
# A wide matrix first: there the tokens fill the smallest share of the space, and a wrong one stands out most.
ORDER = ("ffn-out", "ffn-in", "query", "value", "key", "attention-output")


def telling_view(leak: Leak) -> View | None:
    """The easiest view in which a token's state depends on its sentence."""
    mixed = [view for view in views(leak) if not view.read_row_only and (view.layer or view.after_attention)]
    easiest = sorted((view for view in mixed if view.part in ORDER), key=lambda v: (v.layer, ORDER.index(v.part)))
    return next((view for view in easiest if tells_words(leak, view)), None)


def cannot_be_told_apart(leak: Leak) -> str | None:
    """Why the sentences of a batch cannot be found; None if they can."""
    bag = bag_view(leak)
    if telling_view(leak) is not None or (bag is not None and not bag.blur and leak.labels and not leak.veiled):
        return None
    return "nothing behind an attention is exposed, which would tell the sentences of the batch apart"


def bag_view(leak: Leak) -> View | None:
    """A matrix of layer 0 whose span tells which words occur."""
    view = first_view(leak)
    if view is None or view.rank >= view.bases[0].shape[0] - 1 or (leak.dropout and readable_view(leak) is None):
        return None
    return view


class BatchSearch:
    """The sentences found so far, and the search for the next."""

    def __init__(self, effort: Effort, leak: Leak, budget: Budget, seed: int) -> None:
        assert leak.lengths is not None
        self.effort, self.leak, self.budget, self.seed, self.view = effort, leak, budget, seed, telling_view(leak)
        self.lengths = leak.lengths
        self.found: list[Sentence] = []
        self.step = 0

    def run(self) -> Iterator[Snapshot]:
        read = yield from self.read_words()
        if self.view is None:
            yield from Assembly(self.leak, self.budget, self.seed, self.step, read).run()
            return
        bag = torch.cat(read).unique() if read else torch.empty(0)
        words = bag if len(bag) else None
        while len(self.found) < len(self.lengths):
            search = self.searching(words)
            yield from self.hunt(search)
            if self.budget.over(self.step):
                return
        ids = torch.tensor([token for sentence in self.in_slots() for token in sentence], device=self.leak.model.device)
        certificate, labels = best_certificate(self.leak, ids)
        self.step += 1
        yield snapshot(
            self.leak.model,
            self.budget,
            self.step,
            ids,
            search.best_score,
            "every sentence of the batch is found",
            certificate=certificate,
            labels=labels,
            meaning=SPAN,
        )

    def read_words(self) -> Generator[Snapshot, None, list[Tensor]]:
        """The words that lie in the span of a matrix of layer 0 at places 1, 2, …, where one leaks."""
        leak, model, view = self.leak, self.leak.model, bag_view(self.leak)
        found: list[Tensor] = []
        for place in range(1, max(self.lengths) - 1) if view is not None else ():
            assert view is not None
            outside = residuals(leak, view, place).clamp_min(0)
            words = model.ordinary[outside < IN_SPAN]
            if leak.dropout:
                words = model.ordinary[outside.topk(SHORTLIST, largest=False).indices]
                words = words[
                    agreement(leak, view, words, place).float().mean(1).to(words.device) >= least_share(leak, view)
                ]
            found.append(words)
            nearest = outside.topk(SHOWN, largest=False)
            candidates = Candidates(place, model.ordinary[nearest.indices].cpu(), nearest.values.cpu())
            self.step += 1
            ids, bag = model.blank(*self.lengths), torch.cat(found).unique()
            yield snapshot(
                model,
                self.budget,
                self.step,
                ids,
                torch.inf,
                f"{len(bag)} words lie in the span of the batch",
                confidence=torch.zeros(len(ids)),
                candidates=candidates,
                meaning=SPAN,
            )
        return found

    def searching(self, words: Tensor | None) -> BestFirst:
        left = list(self.lengths)
        for sentence in self.found:
            left.remove(len(sentence))
        assert self.view is not None
        model, seed = self.leak.model, self.seed + len(self.found)
        search = BestFirst(self.effort, model, self.view, left, seed, sum(self.lengths), len(self.lengths), words)
        if self.found:
            known = [torch.tensor(sentence, device=model.device) for sentence in self.found]
            for judge in search.judges.values():
                judge.learn(known)
        return search

    def hunt(self, search: BestFirst) -> Iterator[Snapshot]:
        """Searches until a sentence is found, or time is up."""
        wanted, tried = {len(blank) for blank in search.blanks}, None
        for move in search.moves():
            self.step += 1
            yield self.picture(search, f"sentence {len(self.found) + 1} of {len(self.lengths)}: {move}")
            if search.best != tried and len(search.best) in wanted:
                tried = search.best
                if search.judges[len(tried)].outside(search.tensor([tried])[0]) < IN_SPAN:
                    self.found.append(tried)
                    return
            if self.leak.veiled and search.stuck[search.best] >= SETTLED and len(search.best) in wanted:
                self.found.append(search.best)
                return
            if self.budget.over(self.step):
                return

    def in_slots(self) -> list[Sentence]:
        """The sentences found, each in a slot of its length; blanks elsewhere."""
        left, slots = list(self.found), []
        for length in self.lengths:
            fitting = next((sentence for sentence in left if len(sentence) == length), None)
            if fitting:
                left.remove(fitting)
            slots.append(fitting or tuple(self.leak.model.blank(length).tolist()))
        return slots

    def picture(self, search: BestFirst, stage: str) -> Snapshot:
        """What is found, and the present guess in the first free slot of its length, or of the one most like it."""
        model, look, mask = self.leak.model, search.look(), self.leak.model.nothing
        slots = [torch.tensor(slot, device=model.device) for slot in self.in_slots()]
        free = [n for n, slot in enumerate(slots) if mask in slot.tolist()]
        here = min(free, key=lambda n: abs(len(slots[n]) - len(look.ids)))
        sure = [torch.full((len(slot),), float(n not in free), device=model.device) for n, slot in enumerate(slots)]
        points = [model.words[slot] for slot in slots]
        others = [slot[:, None].repeat(1, look.others.shape[1]) for slot in slots]
        slots[here], points[here], sure[here] = look.ids, look.points, look.sure
        others[here] = look.others
        return snapshot(
            model,
            self.budget,
            self.step,
            torch.cat(slots),
            search.best_score,
            stage,
            torch.cat(points),
            torch.cat(sure),
            torch.cat(others),
            meaning=SPAN,
        )
