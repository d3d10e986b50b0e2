"""Likelihood: where the client adds noise, look for the sentence that makes the leak likeliest.

Noise hides a matrix's small singular values, and with them the span that the other attacks read. It does not hide the
gradient as a whole: a right word changes thousands of numbers a little, and their sum stands out long after each of
them has drowned. So what can still be read is read, dummies descend on the likelihood for a moment, and then whole
sentences are weighed: words that either of them came upon, and frequent ones, in every place, and other orders.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from demo.attacker.attacks.base import Attack, Budget, Snapshot
from demo.attacker.attacks.climb import Climb, Weighing
from demo.attacker.attacks.descent import not_matchable
from demo.attacker.attacks.rows import Rows, bag
from demo.attacker.attacks.search import Search
from demo.attacker.attacks.span import Span
from demo.attacker.leak import Leak
from demo.attacker.subspace import read_length, searchable

READING = 0.5  # of the budget, at most, goes into the first reading


@dataclass(frozen=True)
class Likelihood(Weighing):
    """Weighs whole sentences by how likely they make the leak under the known noise."""

    about: ClassVar = (
        "For noise: looks for the sentence that makes the leak likeliest, word by word, and says by how many nats it "
        "is ahead of the next."
    )

    def supports(self, leak: Leak) -> str | None:
        if leak.dropout or leak.batch > 1:
            return "it weighs one sentence without dropout: use search or grab"
        if not leak.veiled:
            return "no noise was added: search says more than a likelihood"
        if leak.sparse:
            return "only a part of the numbers was sent: search fills them in"
        return not_matchable(leak)

    def run(self, leak: Leak, budget: Budget, seed: int = 0) -> Iterator[Snapshot]:
        step, read = 0, None
        for reading in (Rows(), Span(), Search()):
            if reading.supports(leak) is None and readable(leak, reading):
                part = replace(budget, seconds=budget.elapsed() + READING * (budget.seconds - budget.elapsed()))
                for shot in reading.run(leak, part, seed):
                    step += 1
                    yield replace(shot, step=step, stage=f"reading: {shot.stage}")
                if shot.certified:
                    return
                read = shot
                break
        for shot in Climb(self, leak, budget, seed, read).run(step):
            yield shot
            if budget.over(shot.step) or shot.certified:
                return


def readable(leak: Leak, reading: Attack) -> bool:
    """Whether the noise leaves enough of the embedding rows, or of a span, for a first reading to make sense."""
    length, view = read_length(leak), next(searchable(leak), None)
    if isinstance(reading, Rows):
        shown = len(bag(leak)) if leak.weight("position") is not None else 0
    else:
        shown = view.rank if view is not None else 0
    return length is not None and 2 * shown >= length
