"""Certified: search for the sentence whose gradient is the leaked one, and prove it.

Where the slice allows, the embedding rows or the layer-0 span give the sentence at once. Elsewhere a best-first search
over whole sentences: take the most promising guess not yet explored, let the judge's lens propose words for each place,
add reorderings, score them all by one forward pass up to the exposed matrix, combine the changes that help, repeat. No
continuous descent is needed: the span judge's distance falls with every right word, and the lens finds it among thirty
thousand. A guess that reproduces the leaked gradient to rounding *is* the sentence: that is the certificate.
"""

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from demo.attacks.base import UNKNOWN_LENGTH, Budget, Snapshot, best_certificate, snapshot
from demo.attacks.rows import Rows
from demo.attacks.span import Span
from demo.judges import Judge, ReadoutJudge, SpanJudge
from demo.leak import Leak
from demo.lens import frequent_ids
from demo.subspace import View, read_length, views

Sentence = tuple[int, ...]
CHUNK = 256  # sentences scored between two looks at the clock
RUNNERS_UP = 3
SOFTNESS = 0.05  # turns the judge's ranks into confidences on screen


@dataclass(frozen=True)
class Certified:
    """Best-first search judged by one matrix's subspace; stops when the gradient certifies the guess."""

    words: int = 1000  # how many words the judge shortlists for the whole sentence
    frequent: int = 60  # and how many of the language's most frequent ones join them
    reorderings: int = 600  # at most so many per exploration: all of them up to 20 words
    patience: int = 3  # explorations without progress before the search starts elsewhere

    def supports(self, leak: Leak) -> str | None:
        if Rows().supports(leak) is None:
            return None
        if read_length(leak) is None:
            return UNKNOWN_LENGTH
        if not searchable(leak):
            return "no exposed matrix tells words apart: the tokens fill its whole width, or a decoder mixed them all"
        return None

    def run(self, leak: Leak, budget: Budget, seed: int = 0) -> Iterator[Snapshot]:
        step = 0
        for shortcut in (Rows(), Span()):
            if shortcut.supports(leak) is None:
                for shot in shortcut.run(leak, budget, seed):
                    step += 1
                    yield replace(shot, step=step)
                if shot.certificate and shot.certificate.holds:
                    return
        length, found = read_length(leak), searchable(leak)
        if length is None or not found:
            return
        view = found[0]
        yield snapshot(
            leak.model, budget, step + 1, leak.model.blank(length), 1.0, f"fitting a lens on {view.piece.name}",
            confidence=torch.zeros(length),
        )  # fmt: skip
        judge = judge_for(leak, view, length, seed)
        yield from Search(self, leak, judge, length, seed).run(budget, step + 1)


def searchable(leak: Leak) -> list[View]:
    """The views that can judge a guess, easiest first."""
    decoder = leak.model.net.decoder
    return [
        view
        for view in views(leak)
        if any(basis.shape[1] < basis.shape[0] - 1 for basis in view.bases)  # less one, as LayerNorm fixes the mean
        and (decoder is None or view.layer < decoder)
    ]


def judge_for(leak: Leak, view: View, length: int, seed: int) -> Judge:
    judge = ReadoutJudge if view.read_row_only else SpanJudge
    return judge(leak.model, view, length, seed)


class Search:
    """One best-first search: every sentence scored so far, and those still to explore."""

    def __init__(self, settings: Certified, leak: Leak, judge: Judge, length: int, seed: int) -> None:
        self.settings, self.leak, self.judge, self.length = settings, leak, judge, length
        self.generator = torch.Generator().manual_seed(seed)
        self.frequent = frequent_ids(leak.model)[: settings.frequent]
        self.first_words = torch.cat([judge.shortlist(settings.words), self.frequent])
        self.words = self.first_words.unique()
        self.scores: dict[Sentence, float] = {}
        self.frontier: list[tuple[float, Sentence]] = []
        self.inner = range(1, length - 1)

    def run(self, budget: Budget, step: int) -> Iterator[Snapshot]:
        best = start = tuple(self.leak.model.blank(self.length).tolist())
        best_score, refreshed_for = torch.inf, None
        while not budget.over(step):
            self.start(start, budget)
            here, stalled = torch.inf, 0  # the best since this start, and for how long it has not moved
            while self.frontier and stalled < self.settings.patience and not budget.over(step):
                step += 1
                _, sentence = heapq.heappop(self.frontier)
                ranks = self.judge.rank(self.tensor([sentence])[0], self.words)
                self.explore(sentence, ranks, budget)
                score, sentence = min(self.frontier, default=(torch.inf, best))
                here, stalled = (score, 0) if score < here - 1e-7 else (here, stalled + 1)
                stage = change(best, sentence) if score < best_score - 1e-7 else "looking elsewhere"
                best, best_score = (sentence, score) if score < best_score - 1e-7 else (best, best_score)
                shot = self.picture(budget, step, best, ranks, best_score, stage)
                yield shot
                if shot.certificate and shot.certificate.holds:
                    return
            start = self.kicked(best, ranks) if refreshed_for == best else self.refreshed(best)
            refreshed_for = best

    # -- what to try -------------------------------------------------------------------------------------------------

    def explore(self, sentence: Sentence, ranks: Tensor, budget: Budget) -> None:
        """Scores the neighbours of a guess, then the combinations of those that help and do not touch."""
        before = self.scores[sentence]
        neighbours = [*self.substitutions(sentence, ranks), *self.reorderings(sentence)]
        self.push(neighbours, budget)
        better = sorted((self.scores[s], s) for s in set(neighbours) if self.scores.get(s, before) < before)
        merged, touched, combined = list(sentence), set[int](), []
        for _, neighbour in better[:60]:
            places = {place for place in self.inner if neighbour[place] != sentence[place]}
            if not places & touched:
                touched |= places
                for place in places:
                    merged[place] = neighbour[place]
                combined.append(tuple(merged))
        self.push(combined, budget)

    def substitutions(self, sentence: Sentence, ranks: Tensor) -> Iterator[Sentence]:
        """The best words for each place, one at a time; then the best of all places together, surest first."""
        top = ranks.topk(self.judge.per_place, dim=1, largest=False)
        words = self.words[top.indices].tolist()
        common = torch.isin(self.words, self.frequent).nonzero()[:, 0]
        more = self.words[common[ranks[:, common].topk(self.judge.frequent, dim=1, largest=False).indices]].tolist()
        for place in self.inner:
            for word in words[place] + more[place]:
                yield (*sentence[:place], word, *sentence[place + 1 :])
        together = list(sentence)
        for place in sorted(self.inner, key=lambda place: float(top.values[place, 0])):
            together[place] = words[place][0]
            yield tuple(together)

    def reorderings(self, sentence: Sentence) -> list[Sentence]:
        """Every exchange of two tokens, and every token taken out and put back elsewhere; some of them if too many."""
        found = []
        for one, other in itertools.combinations(self.inner, 2):
            exchanged = list(sentence)
            exchanged[one], exchanged[other] = exchanged[other], exchanged[one]
            found.append(tuple(exchanged))
        for source, target in itertools.permutations(self.inner, 2):
            moved = list(sentence)
            moved.insert(target, moved.pop(source))
            found.append(tuple(moved))
        if len(found) > self.settings.reorderings:
            drawn = torch.randperm(len(found), generator=self.generator)[: self.settings.reorderings]
            found = [found[i] for i in drawn.tolist()]
        return found

    def refreshed(self, best: Sentence) -> Sentence:
        """The same guess, with words shortlisted anew: a guess lends the lens a context."""
        ids = self.tensor([best])[0]
        self.words = torch.cat([self.judge.shortlist(self.settings.words, ids), ids[1:-1], self.first_words]).unique()
        return best

    def kicked(self, best: Sentence, ranks: Tensor) -> Sentence:
        """The best guess with a random stretch moved elsewhere and some words drawn anew, as the lens sees fit."""
        chance = torch.softmax(-ranks.cpu() / SOFTNESS, dim=1)
        drawn = self.words.cpu()[torch.multinomial(chance, 1, generator=self.generator)[:, 0]].tolist()
        share = 0.2 + 0.8 * float(torch.rand(1, generator=self.generator))
        renewed = (torch.rand(self.length, generator=self.generator) < share).tolist()
        inner = [drawn[i] if renewed[i] else best[i] for i in self.inner]
        start, end, target = sorted(torch.randint(len(inner) + 1, (3,), generator=self.generator).tolist())
        inner = inner[:start] + inner[end:target] + inner[start:end] + inner[target:]
        return (best[0], *inner, best[-1])

    # -- bookkeeping -------------------------------------------------------------------------------------------------

    def start(self, sentence: Sentence, budget: Budget) -> None:
        """Forgets what was tried and begins at a sentence."""
        self.frontier, self.scores = [], {}
        self.push([sentence], budget)

    def push(self, sentences: list[Sentence], budget: Budget) -> None:
        """Scores the sentences not seen yet and adds them to the frontier; leaves some out when the time is over."""
        fresh = [s for s in dict.fromkeys(sentences) if s not in self.scores]
        for start in range(0, len(fresh), CHUNK):
            if self.scores and budget.elapsed() > budget.seconds:
                return
            chunk = fresh[start : start + CHUNK]
            for sentence, score in zip(chunk, self.judge.score(self.tensor(chunk)).tolist(), strict=True):
                self.scores[sentence] = score
                heapq.heappush(self.frontier, (score, sentence))

    def tensor(self, sentences: list[Sentence]) -> Tensor:
        return torch.tensor(sentences, device=self.leak.model.device)

    def picture(
        self, budget: Budget, step: int, sentence: Sentence, ranks: Tensor, score: float, stage: str
    ) -> Snapshot:
        """The best guess and its certificate; where the lens would as soon say other words, drawn towards those."""
        ids, table = self.tensor([sentence])[0], self.leak.model.words
        certificate, label = best_certificate(self.leak, ids)
        chance = torch.softmax(-ranks / SOFTNESS, dim=1)  # (tokens, words)
        sure = (chance * (self.words == ids[:, None])).sum(1)
        sure[0] = sure[-1] = 1
        sure = torch.ones_like(sure) if certificate.holds else sure
        points = sure[:, None] * table[ids] + (1 - sure[:, None]) * (chance @ table[self.words])
        others = self.words[ranks.topk(RUNNERS_UP, dim=1, largest=False).indices]
        return snapshot(
            self.leak.model, budget, step, ids, score, stage, points, sure, others, certificate=certificate, label=label
        )


def change(old: Sentence, new: Sentence) -> str:
    """What a move did, for people."""
    if sorted(old) == sorted(new):
        return "better in another order"
    places = [str(place) for place, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    return f"better with other words at {', '.join(places)}"
