"""The search where one vector is all that leaks: the one that the classifier reads of the last layer.

A guess is judged by how far its vector lies from the leaked one, and what counts as far depends on the guess: while
other words are wrong, a right word shows only in directions that those do not disturb. So the search measures how
random substitutions around the present guess move the vector, weighs differences by that, and compares all the guesses
that it keeps anew. Around the nearest guess not yet explored it tries words, orders, and what these should do together
(`attacks.word_effects`).
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from demo.attacker.attacks.base import Budget, Snapshot, best_certificate, snapshot
from demo.attacker.attacks.objectives import VECTOR
from demo.attacker.attacks.sentence_moves import (
    RUNNERS_UP,
    SOFTNESS,
    Sentence,
    change,
    copies,
    kicked,
    reorderings,
    segments,
)
from demo.attacker.attacks.word_effects import Effects
from demo.attacker.certificate import Certificate
from demo.attacker.leak import Leak
from demo.attacker.lens import BATCH, frequent_ids, random_sentences
from demo.attacker.readout import ReadoutJudge

SHOWN = 32  # words per place that draw a guess on screen towards them


class ReadoutSearch:
    """One search: the guesses kept with their vectors, and the metric around the present one."""

    FREQUENT = 60  # the language's most frequent words, tried besides those that the judge proposes
    SIFTED = 120  # words per place that pass the sieve by each estimate; twice as many after each step without progress
    BEST = 12  # proposed words per place that are worth a forward pass
    OFTEN = 8  # and frequent ones: these act on their neighbours more than on the vector itself
    MOVES = 200  # moves of each kind tried of a guess: all phrases up to 9 words, exchanges to 12, copies to 14
    PATIENCE = 6  # explorations without progress before the search starts elsewhere
    FIRST_SAMPLES = 60  # random substitutions per place that the first metric is fitted on
    SAMPLES = 24  # fresh ones at each exploration
    BANK = 1200  # how many of the latest the metric is fitted on
    ROUNDS = 4  # times that changes are combined with what their combination has become
    KEPT = 2000  # guesses kept for later

    def __init__(self, leak: Leak, judge: ReadoutJudge, length: int, seed: int) -> None:
        self.leak, self.judge, self.length = leak, judge, length
        self.generator = torch.Generator().manual_seed(seed)
        self.frequent = frequent_ids(leak.model)[: self.FREQUENT]
        self.inner = range(1, length - 1)
        self.kept: dict[Sentence, Tensor] = {}  # guesses and their vectors
        self.explored: set[Sentence] = set()
        self.stalled = 0  # explorations without progress
        self.changes = torch.empty(0)  # how the latest random substitutions moved the vector
        self.best = tuple(leak.model.blank(length).tolist())
        self.best_site = judge.sites(self.tensor([self.best]))[0]
        self.nearest = (torch.inf, self.best)  # of the guesses kept, in the present metric
        self.shown = self.best
        self.proof: tuple[Certificate | None, tuple[int, ...]] | None = None  # of what is shown, and its labels
        # What the judge proposes for each inner place of the guess explored last: words, and how well each fits.
        self.words = self.tensor([self.best])[0][1:-1, None].repeat(1, SHOWN)
        self.ranks = torch.zeros_like(self.words, dtype=torch.float)

    def run(self, budget: Budget, step: int) -> Iterator[Snapshot]:
        """A snapshot after every forward pass; the last one is the result."""
        for now, stage in enumerate(self.search(), start=step + 1):
            before, shot = self.shown, self.picture(budget, now)
            yield replace(shot, stage=stage if self.shown == before else change(self.leak.model, before, self.shown))
            if shot.certified or budget.over(now):
                return

    # -- the search --------------------------------------------------------------------------------------------------
    # Generators that yield after each forward pass what they are doing: their caller may stop there.

    def search(self) -> Iterator[str]:
        start = self.best
        while True:
            self.kept, self.explored, self.nearest = {}, set(), (torch.inf, start)
            yield from self.keep([start])
            self.stalled = 0
            while self.stalled < self.PATIENCE and (sentence := self.next()):
                yield from self.explore(sentence)
                _, here = self.nearest
                self.stalled = self.stalled + 1 if here in self.explored else 0
            self.best, self.best_site = min([(self.best, self.best_site), (here, self.kept[here])], key=self.farness)
            start = self.kicked()

    def explore(self, sentence: Sentence) -> Iterator[str]:
        """Fits the metric around a guess, then tries its neighbours, and combinations of those that help."""
        self.explored.add(sentence)
        yield from self.sample(sentence)
        self.judge.focus(self.changes)
        self.nearest = self.sorted()[0]
        proposals = []
        for proposal in self.judge.propose(self.tensor([sentence])[0], self.frequent, self.SIFTED << self.stalled):
            proposals.append(proposal)
            yield "looking for words that fit"
        self.words, self.ranks = (torch.stack(parts) for parts in zip(*proposals, strict=True))
        moves = (kind(sentence, self.MOVES, self.generator) for kind in (reorderings, segments, copies))
        neighbours = dict.fromkeys(itertools.chain(self.substitutions(sentence), *moves))
        neighbours.pop(sentence, None)
        yield from self.keep(list(neighbours))
        composed = self.effects(sentence, list(neighbours)).composed(self.seen(sentence))
        yield from self.keep(composed)
        effects, base = self.effects(sentence, list(neighbours | dict.fromkeys(composed))), sentence
        for _ in range(self.ROUNDS):
            before = self.nearest
            yield from self.keep(effects.together(self.tensor([base])[0], self.seen(base)))
            if self.nearest == before:
                break
            base = self.nearest[1]
        self.forget()

    def effects(self, sentence: Sentence, neighbours: list[Sentence]) -> Effects:
        """What the neighbours of a guess do to its vector; all of them are kept."""
        seen = self.judge.whitened(torch.stack([self.kept[s] for s in neighbours]))
        return Effects(self.tensor([sentence])[0], self.tensor(neighbours), seen - self.seen(sentence))

    def seen(self, sentence: Sentence) -> Tensor:
        return self.judge.whitened(self.kept[sentence])

    def sample(self, sentence: Sentence) -> Iterator[str]:
        """Measures how random words in each place move the vector."""
        rows = self.SAMPLES if len(self.changes) else self.FIRST_SAMPLES
        seed = int(torch.randint(2**31, (1,), generator=self.generator))
        drawn = random_sentences(self.leak.model, rows, self.length, seed).tolist()
        tried = [(*sentence[:p], row[p], *sentence[p + 1 :]) for row in drawn for p in self.inner]
        yield from self.keep(tried, "measuring the neighbourhood")
        fresh = torch.stack([self.kept[s] for s in tried]) - self.kept[sentence]
        self.changes = torch.cat([self.changes.to(fresh), fresh])[-self.BANK :]

    def keep(self, sentences: list[Sentence], stage: str = "trying other words and orders") -> Iterator[str]:
        """Computes the vectors of those not known yet, and notes the nearest."""
        fresh = [s for s in dict.fromkeys(sentences) if s not in self.kept]
        for start in range(0, len(fresh), BATCH):
            part = fresh[start : start + BATCH]
            sites = self.judge.sites(self.tensor(part))
            self.kept.update(zip(part, sites, strict=True))
            self.nearest = min(self.nearest, *zip(self.judge.distance(sites).tolist(), part, strict=True))
            yield stage

    def forget(self) -> None:
        """Keeps the best guesses only, and those explored: they must not come back."""
        best = [s for _, s in self.sorted()[: self.KEPT]]
        self.kept = {s: self.kept[s].clone() for s in dict.fromkeys([*best, *self.explored])}

    def sorted(self) -> list[tuple[float, Sentence]]:
        """The guesses kept, nearest first in the present metric."""
        return sorted(zip(self.judge.distance(torch.stack(list(self.kept.values()))).tolist(), self.kept, strict=True))

    def next(self) -> Sentence | None:
        return next((s for _, s in self.sorted() if s not in self.explored), None)

    def farness(self, guess: tuple[Sentence, Tensor]) -> float:
        return float(self.judge.distance(guess[1][None]))

    # -- what to try -------------------------------------------------------------------------------------------------

    def substitutions(self, sentence: Sentence) -> Iterator[Sentence]:
        """The best words for each place, and the best of the frequent ones besides."""
        words, ranks = self.words, self.ranks
        common = torch.arange(words.shape[1] - len(self.frequent), words.shape[1], device=words.device)
        few = ranks.topk(self.BEST, dim=1, largest=False)
        more = common[ranks[:, common].topk(self.OFTEN, dim=1, largest=False).indices]
        chosen = words.gather(1, torch.cat([few.indices, more], dim=1)).tolist()
        for place, fitting in zip(self.inner, chosen, strict=True):
            for word in fitting:
                yield (*sentence[:place], word, *sentence[place + 1 :])

    def kicked(self) -> Sentence:
        """The best guess with a random stretch moved elsewhere and some words drawn anew, as the lens sees fit."""
        chance = torch.softmax(-self.ranks.cpu() / SOFTNESS, dim=1)
        drawn = self.words.cpu().gather(1, torch.multinomial(chance, 1, generator=self.generator))[:, 0].tolist()
        return kicked(self.best, drawn, self.generator)

    # -- bookkeeping -------------------------------------------------------------------------------------------------

    def tensor(self, sentences: list[Sentence]) -> Tensor:
        return torch.tensor(sentences, device=self.leak.model.device)

    def picture(self, budget: Budget, step: int) -> Snapshot:
        """The nearest guess; where the lens would as soon say other words, drawn towards those."""
        score, sentence = min(self.nearest, (self.farness((self.best, self.best_site)), self.best))
        ids, table = self.tensor([sentence])[0], self.leak.model.words
        if self.proof is None or sentence != self.shown:
            self.shown, self.proof = sentence, best_certificate(self.leak, ids)
        certificate, labels = self.proof
        proven = certificate is not None and certificate.holds
        top = self.ranks.topk(SHOWN, dim=1, largest=False)
        words, chance = self.words.gather(1, top.indices), torch.softmax(-top.values / SOFTNESS, dim=1)
        sure = torch.ones(self.length, device=ids.device)
        sure[1:-1] = 1 if proven else (chance * (words == ids[1:-1, None])).sum(1)
        points = table[ids]
        points[1:-1] = torch.lerp(torch.einsum("pn,pnd->pd", chance, table[words]), points[1:-1], sure[1:-1, None])
        others = ids[:, None].repeat(1, 0 if proven else RUNNERS_UP)  # of what is proven there is no other
        others[1:-1] = words[:, : others.shape[1]]
        return snapshot(
            self.leak.model,
            budget,
            step,
            ids,
            score,
            "",
            points,
            sure,
            others,
            certificate=certificate,
            labels=labels,
            meaning=VECTOR,
        )
