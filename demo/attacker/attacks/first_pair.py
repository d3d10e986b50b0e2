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
GUIDES, SECONDS = 2, 2  # likely firsts behind which seconds are tried, and nearest seconds before which firsts are
ROUNDS = 3  # of proposals for each of them in the first turn; one in each that follows
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
        behind = {int(word): self._proposals(followers) for word in self.firsts.topk(GUIDES).indices}
        before: dict[int, Proposals] = {}
        tried, many, known, rounds = 0, PAIRS, -1, ROUNDS
        while not self.pair and len(self.outside) > known:  # as long as there is something new to try
            known = len(self.outside)
            for some in likely[tried : tried + many].split(PAIRS):
                yield from self._tried(some[:, 0], some[:, 1])
            tried, many = tried + many, 2 * many
            for first, proposals in behind.items():
                for _ in range(rounds):
                    if self.pair:
                        return
                    ids = proposals.next()
                    yield from self._tried(torch.full_like(ids, first), ids, proposals)
            for second in self._seconds(list(behind)):
                proposals = before.setdefault(second, self._proposals(self.firsts))
                for _ in range(rounds):
                    if self.pair:
                        return
                    ids = proposals.next()
                    yield from self._tried(ids, torch.full_like(ids, second), proposals, before=True)
            nearest = self._nearest()[0][0]
            if nearest not in behind:  # a better place to look from
                behind[nearest] = self._proposals(followers)
            rounds = 1

    def _tried(
        self, firsts: Tensor, seconds: Tensor, proposals: Proposals | None = None, before: bool = False
    ) -> Iterator[str]:
        """Pairs that are tried, unless the right one is found already; proposals learn from what came of them."""
        if self.pair or not len(firsts):
            return
        look = self._look(firsts, seconds)
        if proposals is not None:
            proposals.learn(replace(look, ids=firsts) if before else look)
        yield f"the first two words at once: {len(self.outside):,} pairs tried"

    def _seconds(self, guides: list[int]) -> list[int]:
        """The nearest behind each guide, as how far words stick out depends on the first; and the nearest of all."""
        nearest = self._nearest()
        found = [second for _, second in nearest[:SECONDS]]
        for guide in guides:
            found += [second for first, second in nearest if first == guide][:SECONDS]
        return list(dict.fromkeys(found))[: SECONDS * (1 + GUIDES)]

    def _look(self, firsts: Tensor, seconds: Tensor) -> Look:
        look = self.judge.look_pairs(firsts, seconds)
        pairs = zip(firsts.tolist(), seconds.tolist(), strict=True)
        self.outside |= dict(zip(pairs, look.outside.tolist(), strict=True))
        for first, second in self._nearest()[:CHECKED]:
            if (first, second) not in self.checked:
                self.checked.add((first, second))
                if self.judge.look(self.judge.after(first), torch.tensor([second], device=firsts.device)).passing:
                    self.pair = first, second
        return look

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
