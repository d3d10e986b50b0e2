"""A search on a decoder that is only played: it walks its prefixes as a script says, for tests of the screen."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from demo.attacker.attacks.base import Branch, Budget, Candidates, Growth, Snapshot, snapshot
from demo.attacker.attacks.objectives import WORD
from demo.attacker.leak import Leak
from demo.client.secret import Secret

DEAD = 3  # words that came near, at each place


class PlayedSearch:
    """Reads the batch that it was given beforehand, all sentences at once, a word of each in a snapshot."""

    about = "A played search."

    def __init__(self, secret: Secret) -> None:
        self.sentences = [ids.tolist() for ids in secret.sentences]
        self.numbers: dict[tuple[int, ...], int] = {(): 0}

    def supports(self, leak: Leak) -> str | None:
        return None

    def run(self, leak: Leak, budget: Budget, seed: int) -> Iterator[Snapshot]:
        guess = leak.model.blank(*map(len, self.sentences))
        starts = [sum(map(len, self.sentences[:n])) for n in range(len(self.sentences))]
        for place in range(max(map(len, self.sentences))):
            prefixes = dict.fromkeys(tuple(words[:place]) for words in self.sentences if place < len(words))
            growth = tuple(self.growth(prefix) for prefix in prefixes)
            for start, words in zip(starts, self.sentences, strict=True):
                guess[start + place : start + len(words)] = leak.model.nothing
                if place < len(words):
                    guess[start + place] = words[place]
            near = None if place % 2 else Candidates(place, guess[[place]].clone(), torch.tensor([1e-7]))
            stage = f"word {place + 1}"
            shot = snapshot(leak.model, budget, place + 1, guess, 0.0, stage, candidates=near, meaning=WORD)
            yield replace(shot, growth=growth)

    def growth(self, prefix: tuple[int, ...]) -> Growth:
        place, parent = len(prefix), self.numbers[prefix]
        living = list(
            dict.fromkeys(words[place] for words in self.sentences if tuple(words[: place + 1])[:-1] == prefix)
        )
        branches = []
        for word in living:
            number = self.numbers.setdefault((*prefix, word), len(self.numbers))
            branches.append(Branch(parent, word, number, 1e-7, 0.002 * (place + 1)))
        dead = [Branch(parent, 2000 + 7 * place + k, 0, 0.1 * (k + 1), 0.01) for k in range(DEAD + 2)]
        expected = Branch(parent, living[0], 0, 1e-7, 0.62) if place % 3 == 2 else Branch(parent, 2711, 0, 0.4, 0.31)
        return Growth(parent, place, 512 * (place + 1), expected, (*branches, *dead))
