"""Search on a decoder under noise: no word lies in the leaked span any more, but the right one sticks out least.

Which words occur still shows in the word table, whose rows are far louder than the noise. At each place all of them are
compared in several matrices of the shallowest layer, of whose spans only the directions that the noise leaves are used.
"""

from collections.abc import Generator, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from demo.attacker.attacks.base import Budget, Snapshot
from demo.attacker.attacks.prefix_search import PrefixSearch, nearest_of
from demo.attacker.last_word import LastWord
from demo.attacker.leak import Leak
from demo.attacker.prefix_views import PrefixView, outside, prefix_views
from demo.attacker.prefixes import Path, PrefixJudge
from demo.turns import tick

LOUDEST = 4  # matrices that are compared in
AGAIN = 1e-4  # a vector that sticks out of the settled ones by less is one of them again
TRUST = 0.5  # in the model's chances beside what sticks out, both as logarithms


def loud_views(leak: Leak) -> list[PrefixView]:
    """Of the shallowest layer, the matrices in which the noise leaves the most directions."""
    views = [view for view in prefix_views(leak) if not view.misses_first and view.piece.layer is not None]
    shallow = [view for view in views if view.layer == views[0].layer]
    return sorted(shallow, key=lambda view: -view.rank)[:LOUDEST]


class NoisySearch(PrefixSearch):
    """Takes at each place the word that sticks out least, all matrices together."""

    def __init__(self, leak: Leak, views: list[PrefixView], seed: int) -> None:
        super().__init__(leak, views[0], seed)
        self.judges = [PrefixJudge(leak, view) for view in views]

    def longer(self, budget: Budget, path: Path) -> Generator[Snapshot, None, Path | None]:
        assert self.bag is not None
        chances, place = self.prior.chances(path.ids), len(path.ids)
        looks = [judge.look(replace(path, taken=judge.start().taken), self.bag) for judge in self.judges]
        away = torch.stack([look.outside.clamp_min(1e-12).log() for look in looks]).mean(0)
        away = away.masked_fill(outside(looks[0].vectors, path.taken) < AGAIN, torch.inf)
        score = away - TRUST / len(looks) * chances[self.bag]
        together = replace(looks[0], outside=away.exp())
        word = int(self.bag[score.argmin()])
        first, second = score.topk(2, largest=False).values.tolist() if len(score) > 1 else (0.0, torch.inf)
        nearest = nearest_of({}, together)
        growth = self._growth(path, chances, len(self.bag), nearest, (word,))
        longer = self.judge.extended(path, word)
        self._note(place, word, nearest)
        self.sure[place] = 1 - float(torch.tensor(first - second).exp())
        stage = f"word {place + 1} of {self.length}: of {len(self.bag):,} that may occur, the one that sticks out least"
        yield self.picture(budget, longer, stage, self._candidates(place, nearest), growth)
        return None if budget.over(self.step) else longer

    def last_words(self, ids: tuple[int, ...], chances: Tensor) -> Iterator[int]:
        """The one that leaves least of the gradient's deepest matrix."""
        reader = LastWord(self.leak, self.view.piece)
        left = {}
        for word in reader.asked(ids, chances):
            tick("weighing the last word")
            left[word] = float(reader.left((*ids, word)).norm())
        yield min(left, key=lambda word: left[word])
