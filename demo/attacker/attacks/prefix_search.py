"""Search on a decoder: walks the tree of prefixes, from the first word on, and takes those that lie in the leaked span.

A `PrefixView` of the leak goes in, snapshots come out: one for each round of words that was tried. The last word of a
sentence is only a target, never an input: `attacker.last_word` reads it off.
"""

from collections.abc import Generator, Iterator

import torch
from torch import Tensor

from demo.attacker.attacks.base import Branch, Budget, Candidates, Growth, Snapshot, best_certificate, snapshot
from demo.attacker.attacks.objectives import WORD
from demo.attacker.certificate import Certificate
from demo.attacker.last_word import LastWord
from demo.attacker.leak import Leak
from demo.attacker.prefixes import Look, Path, PrefixJudge, PrefixView, bag_of_words, prefix_length
from demo.attacker.proposals import ALONE, Alone, Prior, Proposals
from demo.attacker.turned_order import first_read

SHOWN = 24  # nearest words that a snapshot tells of
TWIGS = 4  # of them, as branches of the tree
FIRSTS, SECONDS = 8, 256  # first and second words that are tried together where the first one leaves no trace
PAIRS = 4  # best pairs that are varied in each round
RUNNERS_UP = 3


class PrefixSearch:
    """One sentence, word by word."""

    def __init__(self, leak: Leak, view: PrefixView, seed: int) -> None:
        self.leak, self.view, self.seed = leak, view, seed
        self.model, self.length = leak.model, prefix_length(leak, view)
        self.judge, self.prior, self.bag = PrefixJudge(leak, view), Prior(leak), bag_of_words(leak)
        self.alone = Alone(self.prior, min(ALONE, view.layer))
        self.step, self.worst = 0, 0.0  # the most that any of its words sticks out
        self.sure = torch.zeros(self.length)
        self.others = torch.full((self.length, RUNNERS_UP), self.model.nothing)
        self.certificate: Certificate | None = None
        self.labels: tuple[int, ...] = ()

    def run(self, budget: Budget, step: int) -> Iterator[Snapshot]:
        self.step = step
        path = self.judge.start()
        yield self.picture(budget, path, f"walking the tree of prefixes through {self.view.piece.name}")
        if self.view.misses_first:
            path = yield from self.first_pair(budget, path)
            if not path.ids:
                return
        told = self.length - (0 if self.model.net.labels else 1)
        while len(path.ids) < told:
            longer = yield from self.longer(budget, path)
            if longer is None:
                return
            path = longer
            if budget.over(self.step):
                return
        if self.view.misses_first and self.view.layer == 0:  # where no word's vector knows of the first one
            path = Path((first_read(self.leak, self.view.piece, path.ids), *path.ids[1:]), None, path.taken)
        yield from self.finished(budget, path)

    def longer(self, budget: Budget, path: Path) -> Generator[Snapshot, None, Path | None]:
        """The path with the next word, once one lies in the span; None where none does, or time is up."""
        place, chances = len(path.ids), self.prior.chances(path.ids)
        proposals = Proposals(self.alone, self.view.basis, chances, self.bag, self.seed + place)
        nearest: dict[int, float] = {}
        tried = 0
        while True:
            ids = proposals.next()
            if not len(ids):
                if proposals.rounds == 1:
                    continue
                return None
            look = self.judge.look(path, ids)
            proposals.learn(look)
            tried += len(ids)
            nearest = _nearest(nearest, look)
            growth = self._growth(path, chances, tried, nearest, look.passing[:1])
            if look.passing:
                path = self.judge.extended(path, look.passing[0])
                self._note(place, look.passing[0], nearest)
            stage = self._stage(path, place, tried, chances, bool(look.passing))
            yield self.picture(budget, path, stage, self._candidates(place, nearest), growth)
            if look.passing:
                return path
            if budget.over(self.step):
                return None

    def first_pair(self, budget: Budget, start: Path) -> Generator[Snapshot, None, Path]:
        """The first two words at once: a query matrix knows nothing of the first, but what the second reads of it."""
        opening = self.prior.chances(()).argsort(descending=True)[: len(self.model.ordinary)]
        seen: dict[tuple[int, int], float] = {}
        firsts = opening[:FIRSTS].tolist()
        wanted = [(first, second) for first in firsts for second in self._expected(first, SECONDS)]
        turn = 0
        while True:
            new = [pair for pair in dict.fromkeys(wanted) if pair not in seen]
            if not new:
                return start
            away = self.judge.pairs_outside([a for a, _ in new], [b for _, b in new])
            seen |= dict(zip(new, away.tolist(), strict=True))
            best = sorted(seen, key=lambda pair: seen[pair])[:PAIRS]
            for first, second in best:
                look = self.judge.look(self.judge.after(first), torch.tensor([second], device=self.model.device))
                if look.passing:
                    path = self.judge.extended(start, first, second)
                    self.sure[:2] = 1
                    yield self.picture(budget, path, "the first two words together lie in the span")
                    return path
            yield self.picture(budget, start, f"trying the first two words together: {len(seen):,} pairs")
            if budget.over(self.step):
                return start
            turn += 1
            reach = SECONDS * 4**turn
            wanted = []
            for first, second in best:
                wanted += [(other, second) for other in opening[:reach].tolist()]
                wanted += [(first, other) for other in self._expected(first, reach)]

    def finished(self, budget: Budget, path: Path) -> Iterator[Snapshot]:
        """The proof; and before it the last word, where it is only a target."""
        if self.model.net.labels:
            self._prove(path.ids)
            yield self.picture(budget, path, "every word lies in the span")
            return
        for last in LastWord(self.leak, self.view.piece).likeliest(path.ids, self.prior.chances(path.ids)):
            self._prove((*path.ids, last))
            proven = self.certificate is not None and self.certificate.holds
            self.sure[-1] = 1.0 if proven else 0.1
            longer = Path((*path.ids, last), None, path.taken)
            yield self.picture(budget, longer, "the last word is only a target: trying those the gradient asks for")
            if proven or budget.over(self.step):
                return

    def picture(
        self,
        budget: Budget,
        path: Path,
        stage: str,
        candidates: Candidates | None = None,
        growth: tuple[Growth, ...] = (),
    ) -> Snapshot:
        self.step += 1
        ids = self.model.blank(self.length)
        known = torch.tensor(path.ids[: self.length], device=ids.device, dtype=ids.dtype)
        ids[: len(known)] = known
        return snapshot(
            self.model,
            budget,
            self.step,
            ids,
            self.worst,
            stage,
            confidence=self.sure,
            runners_up=self.others,
            certificate=self.certificate,
            labels=self.labels,
            candidates=candidates,
            meaning=WORD,
            growth=growth,
        )

    def _prove(self, ids: tuple[int, ...]) -> None:
        guess = torch.tensor(ids, device=self.model.device)
        self.certificate, self.labels = best_certificate(self.leak, guess)

    def _expected(self, first: int, many: int) -> list[int]:
        return self.prior.chances((first,)).argsort(descending=True)[: min(many, len(self.model.ordinary))].tolist()

    def _note(self, place: int, word: int, nearest: dict[int, float]) -> None:
        self.worst = max(self.worst, nearest.get(word, 0.0))
        self.sure[place] = 1.0
        others = [other for other in nearest if other != word][:RUNNERS_UP]
        self.others[place, : len(others)] = torch.tensor(others, dtype=self.others.dtype)

    def _candidates(self, place: int, nearest: dict[int, float]) -> Candidates:
        return Candidates(place, torch.tensor(list(nearest)), torch.tensor(list(nearest.values())).clamp_min(0))

    def _growth(
        self, path: Path, chances: Tensor, tried: int, nearest: dict[int, float], living: tuple[int, ...]
    ) -> tuple[Growth, ...]:
        place = len(path.ids)

        def branch(id: int) -> Branch:
            number = place + 1 if id in living else 0
            return Branch(place, id, number, nearest.get(id, 1.0), float(chances[id].exp()))

        others = [id for id in nearest if id not in living][:TWIGS]
        return (Growth(place, place, tried, branch(int(chances.argmax())), tuple(map(branch, (*living, *others)))),)

    def _stage(self, path: Path, place: int, tried: int, chances: Tensor, found: bool) -> str:
        if not found:
            return f"word {place + 1} of {self.length}: {tried:,} words tried, none lies in the span yet"
        chance = float(chances[path.ids[-1]].exp())
        return (
            f"word {place + 1} of {self.length}: 1 of {tried:,} tried lies in the span; the model gave it {chance:.1%}"
        )


def _nearest(known: dict[int, float], look: Look) -> dict[int, float]:
    """The words that stuck out least so far, nearest first."""
    few = look.outside.topk(min(SHOWN, len(look.ids)), largest=False)
    together = known | dict(zip(look.ids[few.indices].tolist(), few.values.tolist(), strict=True))
    return dict(sorted(together.items(), key=lambda pair: pair[1])[:SHOWN])
