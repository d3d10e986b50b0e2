"""Climbing to the likeliest sentence: whole sentences are weighed, the best is changed, and what is stuck is kicked."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from demo.attacker.attacks.base import Budget, Snapshot, best_certificate, labels_of, snapshot
from demo.attacker.attacks.descent import decode, fixed_ends
from demo.attacker.attacks.objectives import NATS
from demo.attacker.attacks.sentence_moves import Sentence, change, kicked, reorderings, replacements, segments, some
from demo.attacker.evidence import Evidence
from demo.attacker.leak import Leak
from demo.attacker.lens import frequent_ids
from demo.attacker.subspace import read_length
from demo.settings import setting

WEIGHED = 16  # sentences weighed at once
NEAR = 3  # words that each dummy is nearest to
RUNNERS_UP = 3
CLOSE = 8  # words of each place that a kick draws from
CHANCE = 10.3  # nats a word: the log of how many words there are, so the best of all sentences has so many by chance
UNSURE = 4  # places of which two at once are changed
COMMON = 6  # frequent words that are put in anywhere while another word is taken out


@dataclass(frozen=True)
class Weighing:
    """How much is weighed; `Likelihood` has these as its settings."""

    rows: int = setting(4, "dummies that descend side by side", 1, 64)
    steps: int = setting(40, "descent steps; longer ones fit the noise", 0, 1000)
    rate: float = setting(0.02, "learning rate of the descent", 1e-4, 1.0)
    pool: int = setting(30, "words from readings and dummies that are tried in every place", 1, 500)
    frequent: int = setting(40, "of the language's most frequent words, so many are tried everywhere too", 0, 1000)
    orders: int = setting(80, "reorderings weighed in a round", 0, 5000)
    kicks: int = setting(6, "how often in a row what is stuck is kicked elsewhere", 0, 1000)


class Climb:
    """The best sentence so far, the words worth trying, and how many nats each sentence has."""

    def __init__(self, settings: Weighing, leak: Leak, budget: Budget, seed: int, read: Snapshot | None) -> None:
        length = read_length(leak)
        assert length is not None
        self.settings, self.leak, self.model, self.budget, self.length = settings, leak, leak.model, budget, length
        self.generator = torch.Generator().manual_seed(seed)
        self.labels = (read.labels if read is not None else ()) or tuple(labels_of(leak)[:1])
        self.evidence = Evidence(leak, self.labels, length)
        self.known: dict[Sentence, float] = {}
        self.best: Sentence = tuple(leak.model.blank(length).tolist())
        self.others: list[list[tuple[float, int]]] = [[] for _ in range(length)]  # of each place, the next best words
        self.leads = [0.0] * length  # by how many nats a place's word was ahead when it was weighed last
        self.words: list[int] = []
        self.points: Tensor | None = None
        self.step, self.read = 0, read is not None
        if read is not None and len(read.ids) == length:
            self.best = tuple(read.ids.tolist())
            self.words += [*self.best[1:-1], *read.runners_up[1:-1].flatten().tolist()]
        self.rows = self.evidence.rows_together(length)
        if self.rows is not None and read is None:
            ids = leak.model.ordinary[self.rows[1:-1, leak.model.ordinary].argmax(1)]
            self.best = (self.best[0], *ids.tolist(), self.best[-1])
            self.words += ids.tolist()

    def run(self, step: int) -> Iterator[Snapshot]:
        """Rounds of weighing. Dummies descend once: first of all where nothing was read, else where it got stuck;
        from then on, what is stuck is kicked elsewhere."""
        self.step, descended, kicks = step, False, 0
        yield from self.weigh([self.best], "weighing what was read")
        if not self.read:
            descended = True
            yield from self.descend()
        while True:
            before = self.best
            yield from self.sweep("every place")
            stuck = self.best == before
            while not stuck:  # what came close is looked at again first: one change lets another in
                here = self.best
                yield from self.sweep("what came close", again=True)
                if self.best == here:
                    break
            if self.known[self.best] < CHANCE * (self.length - 2):
                yield self.picture("of all sentences, some are as likely by chance: the noise has won")
                return
            certificate, _ = best_certificate(self.leak, self.tensor([self.best])[0])
            yield replace(self.picture("nothing is likelier" if stuck else "a round done"), certificate=certificate)
            if not stuck:
                kicks = 0
            elif kicks >= self.settings.kicks or (certificate is not None and certificate.holds):
                return
            elif not descended:
                descended = True
                yield from self.descend()
            else:
                kicks += 1
                yield from self.pairs("two places at once") if kicks == 1 else self.kick(f"kicked, time {kicks}")

    def close(self, place: int) -> list[int]:
        """The word of a place, and those that came close to it."""
        return [self.best[place], *(word for _, word in self.others[place])]

    def pairs(self, stage: str) -> Iterator[Snapshot]:
        """Two words at once, at the places that are least sure: each alone may have been held by the other."""
        unsure = sorted(range(1, self.length - 1), key=lambda place: self.leads[place])[:UNSURE]
        tried = []
        for one, other in itertools.combinations(sorted(unsure), 2):
            for word, next_word in itertools.product(self.close(one), self.close(other)):
                changed = list(self.best)
                changed[one], changed[other] = word, next_word
                tried.append(tuple(changed))
        yield from self.weigh(tried, stage)

    def kick(self, stage: str) -> Iterator[Snapshot]:
        """Some words drawn anew from those that came close, a stretch moved; then only such words are weighed."""
        close = [self.close(place) for place in range(self.length)]
        drawn = [words[int(torch.randint(len(words), (1,), generator=self.generator))] for words in close[1:-1]]
        here, start = kicked(self.best, drawn, self.generator), None
        yield from self.weigh([here], stage)
        while here != start:
            start = here
            for place in (1 + torch.randperm(self.length - 2, generator=self.generator)).tolist():
                tried = [(*here[:place], word, *here[place + 1 :]) for word in {*close[place], *self.best[1:-1]}]
                yield from self.weigh(tried, stage)
                here = max([here, *tried], key=lambda sentence: self.known[sentence])
            orders = reorderings(here, self.settings.orders // 2, self.generator)
            yield from self.weigh(orders, stage)
            here = max([here, *orders], key=lambda sentence: self.known[sentence])

    def descend(self) -> Iterator[Snapshot]:
        """Dummies from noise, for a few steps: their nearest words are worth trying."""
        settings, size = self.settings, float(self.model.words.norm(dim=1).mean())
        words = torch.randn(settings.rows, self.length, self.model.hidden, generator=self.generator)
        words = (words * size / words.norm(dim=-1, keepdim=True)).to(self.model.device).requires_grad_(True)
        optimizer = torch.optim.Adam([words], settings.rate)
        for n in range(1, settings.steps + 1):
            nats = self.evidence.of_words(fixed_ends(self.model, words, (self.length,)))
            pull = (words.norm(dim=-1).mean(1) - size).square()
            # The root of it, so that dummies near and far from the truth move alike.
            (words.grad,) = torch.autograd.grad((pull - nats.clamp_min(1e-9).log()).sum(), [words])
            optimizer.step()
            self.points = fixed_ends(self.model, words, (self.length,))[int(nats.argmax())].detach()
            yield self.picture(f"dummies descend, step {n} of {settings.steps}")
        self.points = None
        if not settings.steps:
            return
        table = F.normalize(self.model.words[self.model.ordinary], dim=1)
        near = (F.normalize(words.detach()[:, 1:-1], dim=-1) @ table.T).topk(NEAR, dim=-1)
        closest = near.values.flatten().argsort(descending=True)
        self.words += self.model.ordinary[near.indices.flatten()[closest]].tolist()
        decoded = [decode(self.model, row, (self.length,))[0].tolist() for row in words.detach()]
        yield from self.weigh([tuple(ids) for ids in decoded], "weighing the dummies' words")

    def sweep(self, stage: str, again: bool = False) -> Iterator[Snapshot]:
        """Every place in turn gets the word that makes the leak likeliest; then other orders are tried."""
        for place in (1 + torch.randperm(self.length - 2, generator=self.generator)).tolist():
            tried = self.close(place) if again else self.candidates(place)
            sentences = [(*self.best[:place], word, *self.best[place + 1 :]) for word in tried]
            yield from self.weigh(sentences, f"{stage}, place {place} of {self.length - 2}")
            ranked = sorted(
                ((self.known[s], s[place]) for s in sentences if s[place] != self.best[place]), reverse=True
            )
            self.others[place] = ranked[:CLOSE]
            self.leads[place] = self.known[self.best] - ranked[0][0]
        for orders in (reorderings, segments):
            tried_orders = orders(self.best, self.settings.orders, self.generator)
            yield from self.weigh(tried_orders, f"{stage}, other orders")
        common = frequent_ids(self.model)[:COMMON].tolist()
        moved = some(replacements(self.best, common), self.settings.orders, self.generator)
        yield from self.weigh(moved, f"{stage}, a word out and another in")

    def candidates(self, place: int) -> list[int]:
        """The words worth trying at a place, the likeliest first."""
        found = list(dict.fromkeys(self.words))[: self.settings.pool]
        for told in (self.rows, self.evidence.rows_alike(self.tensor([self.best])[0])):
            if told is not None:
                ordinary = self.model.ordinary
                found += ordinary[told[place, ordinary].topk(self.settings.pool // 3).indices].tolist()
        found += frequent_ids(self.model)[: self.settings.frequent].tolist()
        return list(dict.fromkeys(found))

    def weigh(self, sentences: list[Sentence], stage: str) -> Iterator[Snapshot]:
        """Weighs the sentences not weighed yet, a few at a time; the best of all is kept."""
        fresh = [s for s in dict.fromkeys(sentences) if s not in self.known]
        for start in range(0, len(fresh), WEIGHED):
            part, before = fresh[start : start + WEIGHED], self.best
            for sentence, nats in zip(part, self.evidence.nats(self.tensor(part)).tolist(), strict=True):
                self.known[sentence] = nats
                if nats > self.known.get(self.best, -torch.inf):
                    self.best = sentence
            said = stage if self.best == before else f"{stage}: {change(self.model, before, self.best)}"
            yield self.picture(said)

    def tensor(self, sentences: list[Sentence]) -> Tensor:
        return torch.tensor(sentences, device=self.model.device)

    def picture(self, stage: str) -> Snapshot:
        """The best sentence; a place is sure as far as its next best word is less likely."""
        self.step += 1
        ids, nats = self.tensor([self.best])[0], self.known.get(self.best, 0.0)
        others = [[word for _, word in place[:RUNNERS_UP]] for place in self.others]
        full = [(words + [word] * RUNNERS_UP)[:RUNNERS_UP] for words, word in zip(others, self.best, strict=True)]
        ahead = torch.tensor(self.leads)
        ahead[0] = ahead[-1] = torch.inf
        return snapshot(
            self.model,
            self.budget,
            self.step,
            ids,
            -nats,
            stage,
            self.points,
            confidence=1 - torch.exp(-ahead.clamp_min(0)),
            runners_up=torch.tensor(full),
            labels=self.labels,
            meaning=NATS,
        )
