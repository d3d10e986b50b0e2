"""How the tree of prefixes grew, as the page is told of it: one string a frame, which a script reads again.

    [[parent, place, tried, [word, chance, distance], [[number, word, chance, distance], …]], …]

A growth is what was found out about the words after one prefix (demo.attacker.attacks.base.Growth); chances travel as
percents. It is a string, as gradio 6.31 gets the differences of shrinking lists within lists wrong.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from demo.attacker.attacks.base import Growth

BRANCHES = 48  # that a frame tells of; what is beyond them waits for the next one
LIVING, DEAD = 24, 3  # branches that are told of after one prefix: those that lie nearest
PREFIXES = 1000  # that the last frame tells of
SAID = 3  # frames that tell of a growth: the page may miss some


class Growing:
    """Gathers what the snapshots tell, also those that are not shown, and hands it on in portions."""

    def __init__(self, words: Callable[[Sequence[int]], list[str]]) -> None:
        self.words = words
        self.tree: dict[int, Growth] = {}  # by the prefix's number, in the order in which they grew
        self.waiting: dict[int, int] = {}  # prefix -> how often it has yet to be told of

    def add(self, growths: Sequence[Growth]) -> None:
        for growth in growths:
            known = self.tree.get(growth.parent)
            self.tree[growth.parent] = joined(known, growth) if known else shortened(growth)
            self.waiting[growth.parent] = SAID

    def told(self) -> dict[str, str]:
        """The next portion: what is new first, and parents before the children that grow on them."""
        portion: list[Growth] = []
        for parent in sorted(self.waiting, key=lambda parent: -self.waiting[parent]):
            if portion and sum(len(growth.branches) for growth in portion) >= BRANCHES:
                break
            portion.append(self.tree[parent])
            self.waiting[parent] -= 1
            if not self.waiting[parent]:
                del self.waiting[parent]
        return self._written(portion)

    def whole(self) -> dict[str, str]:
        """All that lives, once more, for a page that has missed some of it."""
        living = [growth for growth in self.tree.values() if any(branch.number for branch in growth.branches)]
        return self._written(living[:PREFIXES])

    def _written(self, growths: Sequence[Growth]) -> dict[str, str]:
        told = [[growth.parent, growth.place, growth.tried, *self._rows(growth)] for growth in growths]
        return {"growth": json.dumps(told, separators=(",", ":"), ensure_ascii=False)} if told else {}

    def _rows(self, growth: Growth) -> tuple[list[Any], list[list[Any]]]:
        ids = [branch.id for branch in (growth.expected, *growth.branches)]
        expected, *others = (
            [word, rounded(100 * branch.chance, 3), rounded(branch.distance, 2)]
            for word, branch in zip(self.words(ids), (growth.expected, *growth.branches), strict=True)
        )
        return expected, [[branch.number, *row] for branch, row in zip(growth.branches, others, strict=True)]


def joined(known: Growth, new: Growth) -> Growth:
    """All that is known of one prefix's followers; a word that was dead may have come to life."""
    branches = {branch.id: branch for branch in known.branches}
    for branch in new.branches:
        if branch.number or not branches.get(branch.id, branch).number:
            branches[branch.id] = branch
    return shortened(replace(new, tried=max(known.tried, new.tried), branches=tuple(branches.values())))


def shortened(growth: Growth) -> Growth:
    nearest = sorted(growth.branches, key=lambda branch: branch.distance)
    living, dead = ([branch for branch in nearest if bool(branch.number) is lives] for lives in (True, False))
    return replace(growth, branches=(*living[:LIVING], *dead[:DEAD]))


def rounded(value: float, digits: int) -> float | None:
    """None: nobody has looked."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None
