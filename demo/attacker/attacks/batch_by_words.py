"""Batches of which only layer 0 leaks: its span tells which words may stand where, and the gradient itself which of
them belong together.

At layer 0 a word's vector does not depend on its sentence, so the span alone cannot tell sentences apart. What comes
back to each word through the rest of the network can: the gradient of whole batches is compared with the leaked one,
and words, and the ends of sentences, are exchanged as long as that helps.
"""

import itertools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from demo.attacker.attacks.base import Budget, Snapshot, best_certificate, snapshot
from demo.attacker.attacks.objectives import COSINE
from demo.attacker.attacks.sentence_moves import Sentence, combined, reorderings
from demo.attacker.certificate import Certificate
from demo.attacker.leak import Leak
from demo.attacker.matching import Matcher, one_hot

WEIGHED = 32  # batches compared at once
NEAR = 1e-2  # a distance below which it is worth to ask for the certificate
ORDERS = 200  # other orders tried of each sentence
PATIENCE = 50  # starts from elsewhere that bring nothing new: then there is nothing left to try
RENEWED = 0.3  # of the words are drawn anew where nothing helps any more


class Assembly:
    """The best batch so far, its sentences one after the other, and the words that may stand at each of its places."""

    def __init__(self, leak: Leak, budget: Budget, seed: int, step: int, words: Sequence[Tensor]) -> None:
        """`words` are those that may stand at places 1, 2, … of any sentence."""
        assert leak.lengths is not None
        assert leak.labels is not None
        self.leak, self.budget, self.step = leak, budget, step
        self.matcher = Matcher(leak, leak.lengths)
        self.generator = torch.Generator().manual_seed(seed)
        self.spans = list(zip([0, *itertools.accumulate(leak.lengths)], leak.lengths, strict=False))
        self.places = [(start, place) for start, length in self.spans for place in range(1, length - 1)]
        self.choices = {start + place: words[place - 1].tolist() for start, place in self.places}
        self.allowed = {at: set(words) for at, words in self.choices.items()}
        self.known: dict[Sentence, float] = {}
        blank = leak.model.blank(*leak.lengths).tolist()
        for number, (start, place) in enumerate(self.places):
            options = self.choices[start + place]
            blank[start + place] = options[number % len(options)] if options else blank[start + place]
        self.best: Sentence = tuple(blank)
        self.nearest = self.best
        self.proof: tuple[Certificate | None, tuple[int, ...]] | None = None  # of the best, and its labels

    def run(self) -> Iterator[Snapshot]:
        """Goes on from the nearest neighbour, or from elsewhere; ends as well where everything has been tried."""
        for shot in self.search():
            yield shot
            if shot.certified or self.budget.over(shot.step):
                return

    def search(self) -> Iterator[Snapshot]:
        yield from self.weigh([self.best], "words that lie in the span, in any sentence")
        here, fruitless = self.best, 0
        while fruitless < PATIENCE:
            before = len(self.known)
            yield from self.explore(here)
            if self.nearest != here:
                here = self.nearest
            else:
                here = self.renewed()
                yield from self.weigh([here], "starting from elsewhere")
            fruitless = 0 if len(self.known) > before else fruitless + 1

    def explore(self, batch: Sentence) -> Iterator[Snapshot]:
        """Weighs the neighbours of a batch, then what helps together; `nearest` is the best of all these."""
        tried, before = self.neighbours(batch), self.known[batch]
        yield from self.weigh(tried, "exchanging words within and between sentences")
        better = sorted((self.known[b], b) for b in tried if self.known[b] < before)
        together = combined(batch, [neighbour for _, neighbour in better])
        yield from self.weigh(together, "several changes at once")
        self.nearest = min([batch, *tried, *together], key=lambda b: self.known[b])

    def neighbours(self, batch: Sentence) -> list[Sentence]:
        """Another word that may stand there; another order; two words, or the ends of two sentences, exchanged."""
        found = [
            (*batch[:at], word, *batch[at + 1 :])
            for at, words in self.choices.items()
            for word in words
            if word != batch[at]
        ]
        ends = {start: length - 1 for start, length in self.spans}
        for (one, place), (other, same) in itertools.combinations(self.places, 2):
            if place == same:
                for stop in (place + 1, min(ends[one], ends[other])):
                    exchanged = list(batch)
                    exchanged[one + place : one + stop] = batch[other + place : other + stop]
                    exchanged[other + place : other + stop] = batch[one + place : one + stop]
                    found.append(tuple(exchanged))
        for start, length in self.spans:
            stop = start + length
            orders = reorderings(batch[start:stop], ORDERS, self.generator)
            found += [(*batch[:start], *order, *batch[stop:]) for order in orders]
        return [
            b
            for b in dict.fromkeys(found)
            if all(b[at] in self.allowed[at] or b[at] == batch[at] for at in self.allowed)
        ]

    def renewed(self) -> Sentence:
        batch = list(self.best)
        for at, words in self.choices.items():
            if words and float(torch.rand(1, generator=self.generator)) < RENEWED:
                batch[at] = words[int(torch.randint(len(words), (1,), generator=self.generator))]
        return tuple(batch)

    def weigh(self, batches: list[Sentence], stage: str) -> Iterator[Snapshot]:
        """Compares the gradients of those not known yet with the leaked one, a few at a time."""
        model, fresh = self.leak.model, [batch for batch in batches if batch not in self.known]
        for first in range(0, len(fresh), WEIGHED):
            part, before = fresh[first : first + WEIGHED], self.best
            words = model.words[torch.tensor(part, device=model.device)]
            labels = one_hot(model, self.leak.labels or (), len(part))
            distances = self.matcher.distance(words, labels, "cosine", graph=False).tolist()
            self.known.update(zip(part, distances, strict=True))
            self.best = min([self.best, *part], key=lambda batch: self.known[batch])
            if self.proof is None or (self.best != before and self.known[self.best] < NEAR):
                self.proof = best_certificate(self.leak, torch.tensor(self.best, device=model.device))
            elif self.best != before:
                self.proof = None, ()
            yield self.picture(stage)

    def picture(self, stage: str) -> Snapshot:
        """The best batch; unless it is proven, a word is as sure as there are few others for its place."""
        assert self.proof is not None
        self.step += 1
        certificate, labels = self.proof
        sure = torch.ones(len(self.best))
        if certificate is None or not certificate.holds:
            for at, words in self.choices.items():
                sure[at] = 1 / len(words) if words else 0
        return snapshot(
            self.leak.model,
            self.budget,
            self.step,
            torch.tensor(self.best, device=self.leak.model.device),
            self.known[self.best],
            stage,
            confidence=sure,
            certificate=certificate,
            labels=labels,
            meaning=COSINE,
        )
