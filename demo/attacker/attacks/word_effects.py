"""Which changes of a guess would help together, told from what each of them does alone.

Where guesses are judged by one vector, every neighbour of a guess moves that vector somewhere. Were the effects to add
up, inner products would tell which changes come closest together, without a forward pass. They do so roughly, and that
finds what no single step does: a wrong word often hides another's mistake, so that either change alone makes the guess
worse.
"""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from demo.attacker.attacks.sentence_moves import Sentence
from demo.turns import tick

BEAM = 100  # combinations of changes pursued
DEPTH = 4  # changes combined at most
PROMISING = 40  # combinations of each size that are worth a forward pass
COMPOSED = 64  # reorderings with another word that are


@dataclass(frozen=True, eq=False)
class Effects:
    """What the neighbours of a guess do to its vector."""

    guess: Tensor  # (tokens,) ids
    neighbours: Tensor  # (n, tokens) ids, each unlike the guess
    changes: Tensor  # (n, width): each neighbour's vector less the guess's

    @functools.cached_property
    def touched(self) -> Tensor:
        return self.neighbours != self.guess  # (n, tokens)

    @functools.cached_property
    def products(self) -> Tensor:
        return self.changes @ self.changes.T  # (n, n): the same in every round of combining

    def together(self, base: Tensor, here: Tensor) -> list[Sentence]:
        """Changes that should come closest if they are made together: a beam search on inner products.

        `base` (tokens,) is the guess, or what became of it by some of these changes, and `here` (width,) how far its
        vector is from the leak's. Only places that `base` has as the guess had them are changed.
        """
        touched = self.touched
        fixed = (touched & (base != self.guess)).any(1)
        gram, clash = self.products, touched.float() @ touched.float().T > 0
        alone = 2 * self.changes @ here + gram.diagonal()  # what each adds to the squared distance
        alone[fixed] = torch.inf
        members = torch.empty(1, 0, dtype=torch.long, device=base.device)  # (beam, changes)
        totals = torch.zeros(1, device=base.device)
        found: list[Sentence] = []
        for size in range(1, DEPTH + 1):
            tick()
            scores = totals[:, None] + alone + 2 * gram[members].sum(1)  # (beam, changes)
            scores[clash[members].any(1)] = torch.inf
            best, where = scores.flatten().topk(min(BEAM * size, scores.numel()), largest=False)
            sets = torch.cat([members[where // len(alone)], where[:, None] % len(alone)], dim=1).sort(1).values
            unlike = {tuple(row): i for i, row in reversed(list(enumerate(sets.tolist()))) if best[i] < torch.inf}
            if not unlike:
                break
            beam = sorted(unlike.values())[:BEAM]
            members, totals = sets[beam], best[beam]
            found += [self.made(base, row) for row in members[:PROMISING].tolist()]
        return found

    def made(self, base: Tensor, members: list[int]) -> Sentence:
        """A sentence with changes made that touch different places."""
        made = base
        for member in members:
            made = torch.where(self.touched[member], self.neighbours[member], made)
        return tuple(made.tolist())

    def composed(self, here: Tensor) -> list[Sentence]:
        """Reorderings with one of their words exchanged: for a guess with a word too many here, and one too few there.

        The reordering puts some word into a place; what that word does there alone is taken off, and another's put on.
        """
        touched, found = self.touched, []
        several = touched.sum(1) > 1
        for place in range(1, len(self.guess) - 1):
            tick()
            alone = (touched[:, place] & ~several).nonzero()[:, 0].tolist()
            words = {int(self.neighbours[n, place]): n for n in alone}
            into = self.neighbours[:, place].tolist()
            moves = [n for n in (touched[:, place] & several).nonzero()[:, 0].tolist() if into[n] in words]
            start = here + self.changes[moves] - self.changes[[words[into[n]] for n in moves]]  # (moves, width)
            put_on = self.changes[list(words.values())]
            scores = start.square().sum(1)[:, None] + 2 * start @ put_on.T + put_on.square().sum(1)
            best = scores.flatten().topk(min(COMPOSED, scores.numel()), largest=False)
            for score, where in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                made = self.neighbours[moves[where // len(words)]].tolist()
                made[place] = list(words)[where % len(words)]
                found.append((score, tuple(made)))
        return [sentence for _, sentence in sorted(found)[:COMPOSED]]
