"""The first two words of a decoder's sentence at once, where a query matrix leaks.

The first token has only itself to attend to, so what it asks for does not matter: nothing tells of it but what the
second token reads of it. Pairs that the model expects are tried first. With a wrong first word the right second one
still sticks out less than most others do, so further firsts are tried before the nearest seconds, and further seconds
behind the nearest firsts.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from demo.attacker.prefixes import Look, PrefixJudge
from demo.attacker.proposals import Alone, Prior, Proposals
from demo.turns import tick

LIKELY, FOLLOWERS = 768, 64  # first words, and words after each, that are expected as pairs
PAIRS = 1024  # likely pairs tried in the first turn; twice as many in each that follows
GUIDES, SECONDS = 2, 4  # of the nearest pairs: firsts behind which others are tried, seconds before which others are
ROWS = 64  # first words put through the network together
CHECKED = 4  # nearest pairs that are checked in full precision


class FirstPair:
    """`pair` is there once `run` has ended by itself, unless none of those that were tried lies in the span."""

    def __init__(self, judge: PrefixJudge, prior: Prior, alone: Alone, seed: int) -> None:
        self.judge, self.prior, self.alone, self.seed = judge, prior, alone, seed
        self.firsts = prior.chances(())
        self.outside: dict[tuple[int, int], float] = {}
        self.checked: set[tuple[int, int]] = set()
        self.pair: tuple[int, int] | None = None

    def run(self) -> Iterator[str]:
        """What it is doing, a few times a second."""
        likely, followers = self._expected()
        before: dict[int, Proposals] = {}
        behind: dict[int, Proposals] = {}
        tried, many, known = 0, PAIRS, -1
        while len(self.outside) > known:  # as long as there is something new to try
            known = len(self.outside)
            for some in likely[tried : tried + many].split(PAIRS):
                self._look(some[:, 0], some[:, 1])
                yield f"the first two words at once: {len(self.outside):,} pairs tried"
                if self.pair:
                    return
            tried, many = tried + many, 2 * many
            for second in list(dict.fromkeys(second for _, second in self._nearest()))[:SECONDS]:
                ids = before.setdefault(second, self._proposals(self.firsts)).next()
                before[second].learn(self._look(ids, torch.full_like(ids, second), before=True))
                yield f"the first two words at once: {len(self.outside):,} pairs tried"
                if self.pair:
                    return
            for first in list(dict.fromkeys(first for first, _ in self._nearest()))[:GUIDES]:
                ids = behind.setdefault(first, self._proposals(followers)).next()
                behind[first].learn(self._look(torch.full_like(ids, first), ids))
                yield f"the first two words at once: {len(self.outside):,} pairs tried"
                if self.pair:
                    return

    def _look(self, firsts: Tensor, seconds: Tensor, before: bool = False) -> Look:
        """Tries pairs; `before` says that the first words are what is looked for."""
        if not len(firsts):
            return Look(firsts, self.judge.view.basis.T[:0], firsts.float(), ())
        look = self.judge.look_pairs(firsts, seconds)
        pairs = zip(firsts.tolist(), seconds.tolist(), strict=True)
        self.outside |= dict(zip(pairs, look.outside.tolist(), strict=True))
        for first, second in self._nearest()[:CHECKED]:
            if (first, second) not in self.checked:
                self.checked.add((first, second))
                if self.judge.look(self.judge.after(first), torch.tensor([second], device=firsts.device)).passing:
                    self.pair = first, second
        return replace(look, ids=firsts) if before else look

    def _nearest(self) -> list[tuple[int, int]]:
        return sorted(self.outside, key=lambda pair: self.outside[pair])

    def _proposals(self, chances: Tensor) -> Proposals:
        return Proposals(self.alone, self.judge.view.basis, chances, None, self.seed)

    @torch.no_grad()
    def _expected(self) -> tuple[Tensor, Tensor]:
        """Pairs, likeliest first (pairs, 2); and the chance of each second word, whatever the first is."""
        first = self.firsts.topk(min(LIKELY, len(self.prior.ordinary)))
        pairs, chances, total = [], [], torch.full_like(self.firsts, -torch.inf)
        for words, own in zip(first.indices.split(ROWS), first.values.split(ROWS), strict=True):
            tick()
            joint = self.prior.chances_after(words) + own[:, None]
            total = torch.logaddexp(total, joint.logsumexp(0))
            best = joint.topk(min(FOLLOWERS, len(self.prior.ordinary)), dim=1)
            pairs.append(torch.stack([words[:, None].expand_as(best.indices), best.indices], dim=-1).flatten(0, 1))
            chances.append(best.values.flatten())
        return torch.cat(pairs)[torch.cat(chances).argsort(descending=True)], total.log_softmax(0)
