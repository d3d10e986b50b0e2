"""Search on a decoder's batch: all its words share the span, and each sentence is a path in the tree of prefixes.

The words that occur are known, so at each prefix all of them are tried, and every one that lies in the span lives on,
until as many prefixes live as the span has directions. A sentence ends where its path does, but for its last word.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from demo.attacker.attacks.base import Branch, Budget, Growth, Snapshot, best_certificate, snapshot
from demo.attacker.attacks.objectives import WORD
from demo.attacker.certificate import Certificate
from demo.attacker.last_word import last_words_of_batch
from demo.attacker.leak import Leak
from demo.attacker.prefix_views import PrefixView, bag_of_words
from demo.attacker.prefixes import Look, Path, PrefixJudge
from demo.attacker.proposals import Prior
from demo.turns import tick

TWIGS = 2  # words that came nearest beside those that live, told of each prefix
SPARE = 4  # words more than sentences that are looked at in full precision


class PrefixBatch:
    """The paths so far, each numbered by its last branch."""

    def __init__(self, leak: Leak, view: PrefixView) -> None:
        bag = bag_of_words(leak)
        assert bag is not None
        self.leak, self.view, self.bag, self.model = leak, view, bag, leak.model
        self.judge, self.prior = PrefixJudge(leak, view), Prior(leak)
        self.taken, self.living = view.basis[:, :0], 0
        self.ends: list[Path] = []  # paths that nothing follows
        self.worst, self.step = 0.0, 0
        self.certificate: Certificate | None = None
        self.labels: tuple[int, ...] = ()

    def run(self, budget: Budget) -> Iterator[Snapshot]:
        paths = {0: self.judge.start()}
        yield self.picture(budget, list(paths.values()), f"walking the tree of prefixes through {self.view.piece.name}")
        while paths and self.living < self.view.rank:
            longer: dict[int, Path] = {}
            for number, path in paths.items():
                children, growth = self.follow(number, path)
                longer |= children
                if not children and path.ids:
                    self.ends.append(path)
                rest = [other for n, other in paths.items() if n > number]
                stage = f"{self.living} of {self.view.rank} prefixes of the batch found"
                yield self.picture(budget, [*self.ends, *longer.values(), *rest], stage, (growth,))
                if budget.over(self.step):
                    return
            paths = longer
        self.ends += [path for path in paths.values() if path.ids]
        yield from self.finished(budget)

    def follow(self, number: int, path: Path) -> tuple[dict[int, Path], Growth]:
        """The paths that go on from one, each by a word that lies in the span; and what the stage is told of it."""
        path = replace(path, taken=self.taken)
        look, chances = self.judge.look(path, self.bag, self.leak.batch + SPARE), self.prior.chances(path.ids)
        children: dict[int, Path] = {}
        branches = []
        for word in look.passing:
            longer = self.judge.extended(replace(path, taken=self.taken), word)
            self.taken, self.living = longer.taken, self.living + 1
            children[self.living] = longer
            branches.append(self._branch(number, word, self.living, look, chances))
        others = [word for word in look.ids[look.outside.argsort()].tolist() if word not in look.passing][:TWIGS]
        branches += [self._branch(number, word, 0, look, chances) for word in others]
        expected = self._branch(number, int(chances.argmax()), 0, look, chances)
        return children, Growth(number, len(path.ids), len(self.bag), expected, tuple(branches))

    def finished(self, budget: Budget) -> Iterator[Snapshot]:
        """The last words, which are only targets, and the proof."""
        paths, chances = self.ends[: self.leak.batch], [self.prior.chances(path.ids) for path in self.ends]
        prefixes = [path.ids for path in paths]
        tick("reading the last words, which are only targets")
        last = last_words_of_batch(self.leak, prefixes, chances) if not self.model.net.labels else None
        if last is not None:
            paths = [Path((*path.ids, word), None, path.taken) for path, word in zip(paths, last, strict=True)]
        if len(paths) == self.leak.batch and (last is not None or self.model.net.labels):
            sentences = [torch.tensor(path.ids, device=self.model.device) for path in paths]
            leak = replace(self.leak, lengths=tuple(len(ids) for ids in sentences))
            self.certificate, self.labels = best_certificate(leak, torch.cat(sentences))
        yield self.picture(budget, paths, "every prefix of the batch found")

    def picture(self, budget: Budget, paths: list[Path], stage: str, growth: tuple[Growth, ...] = ()) -> Snapshot:
        """As many sentences as the batch has: the longest paths, with blanks for what is not known yet."""
        self.step += 1
        proven = self.certificate is not None and self.certificate.holds
        read = sorted((path.ids for path in paths), key=len, reverse=True)[: self.leak.batch]
        read += [()] * (self.leak.batch - len(read))
        blanks = [0 if proven else max(1, 2 - len(ids)) for ids in read]
        ids = [id for one, more in zip(read, blanks, strict=True) for id in (*one, *[self.model.nothing] * more)]
        sure = [1.0 if id != self.model.nothing else 0.0 for id in ids]
        return snapshot(
            self.model,
            budget,
            self.step,
            torch.tensor(ids, device=self.model.device),
            self.worst,
            stage,
            confidence=torch.tensor(sure),
            certificate=self.certificate,
            labels=self.labels,
            meaning=WORD,
            growth=growth,
            lengths=tuple(len(one) + more for one, more in zip(read, blanks, strict=True)),
        )

    def _branch(self, parent: int, word: int, number: int, look: Look, chances: Tensor) -> Branch:
        distance = float(look.outside[look.ids == word].min()) if (look.ids == word).any() else 1.0
        if number:
            self.worst = max(self.worst, distance)
        return Branch(parent, word, number, distance, float(chances[word].exp()))
