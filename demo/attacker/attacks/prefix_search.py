"""Search on a decoder: walks the tree of prefixes, from the first word on, and takes those that lie in the leaked span.

A `PrefixView` of the leak goes in, snapshots come out: one for each round of words that was tried. The last word of a
sentence is only a target, never an input: `attacker.last_word` reads it off.
"""

from collections.abc import Generator, Iterator

import torch
from torch import Tensor

from demo.attacker.attacks.base import Branch, Budget, Candidates, Growth, Snapshot, best_certificate, snapshot
from demo.attacker.attacks.first_pair import FirstPair
from demo.attacker.attacks.objectives import WORD
from demo.attacker.certificate import Certificate
from demo.attacker.last_word import LastWord
from demo.attacker.leak import Leak
from demo.attacker.prefix_views import PrefixView, bag_of_words, prefix_length
from demo.attacker.prefixes import Look, Path, PrefixJudge
from demo.attacker.proposals import ALONE, Alone, Prior, Proposals
from demo.attacker.turned_order import first_read

SHOWN = 24  # nearest words that a snapshot tells of
TWIGS = 4  # of them, as branches of the tree
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
            nearest = nearest_of(nearest, look)
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
        search = FirstPair(self.judge, self.prior, self.alone, self.seed)
        for stage in search.run():
            yield self.picture(budget, start, stage)
            if budget.over(self.step):
                return start
        if search.pair is None:
            return start
        path = self.judge.extended(start, *search.pair)
        self.sure[:2] = 1
        growths = [self._grown(search.pair[:place], word) for place, word in enumerate(search.pair)]
        yield self.picture(budget, path, "the first two words together lie in the span", growth=tuple(growths))
        return path

    def finished(self, budget: Budget, path: Path) -> Iterator[Snapshot]:
        """The proof; and before it the last word, where it is only a target."""
        if self.model.net.labels:
            self._prove(path.ids)
            yield self.picture(budget, path, "every word lies in the span")
            return
        for last in self.last_words(path.ids, self.prior.chances(path.ids)):
            self._prove((*path.ids, last))
            proven = self.certificate is not None and self.certificate.holds
            self.sure[-1] = 1.0 if proven else 0.1
            longer = Path((*path.ids, last), None, path.taken)
            growth = (self._grown(path.ids, last),) if proven else ()
            stage = "the last word is only a target: trying those the gradient asks for"
            yield self.picture(budget, longer, stage, growth=growth)
            if proven or budget.over(self.step):
                return

    def last_words(self, ids: tuple[int, ...], chances: Tensor) -> Iterator[int]:
        return LastWord(self.leak, self.view.piece).likeliest(ids, chances)

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

    def _grown(self, before: tuple[int, ...], word: int) -> Growth:
        """A word that was read without trying others after the same prefix, as the tree is told of it."""
        place, chances = len(before), self.prior.chances(before)
        expected = int(chances.argmax())
        found = Branch(place, word, place + 1, 0.0, float(chances[word].exp()))
        return Growth(place, place, 1, Branch(place, expected, 0, 1.0, float(chances[expected].exp())), (found,))

    def _stage(self, path: Path, place: int, tried: int, chances: Tensor, found: bool) -> str:
        if not found:
            return f"word {place + 1} of {self.length}: {tried:,} words tried, none lies in the span yet"
        chance = float(chances[path.ids[-1]].exp())
        return (
            f"word {place + 1} of {self.length}: 1 of {tried:,} tried lies in the span; the model gave it {chance:.1%}"
        )


def nearest_of(known: dict[int, float], look: Look) -> dict[int, float]:
    """The words that stuck out least so far, nearest first."""
    few = look.outside.topk(min(SHOWN, len(look.ids)), largest=False)
    together = known | dict(zip(look.ids[few.indices].tolist(), few.values.tolist(), strict=True))
    return dict(sorted(together.items(), key=lambda pair: pair[1])[:SHOWN])
