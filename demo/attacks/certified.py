"""Certified: search for the sentence whose gradient is the leaked one, and prove it.

Where the slice allows, the embedding rows or the layer-0 span give the sentence at once. Elsewhere a best-first search
over whole sentences: take the most promising guess not yet explored, let the judge's lens propose words for each place,
add reorderings, score them all by one forward pass up to the exposed matrix, combine the changes that help, repeat. No
continuous descent is needed: the span judge's distance falls with every right word, and the lens finds it among thirty
thousand. A guess that reproduces the leaked gradient to rounding *is* the sentence: that is the certificate.
"""

import heapq
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from demo.attacks.base import UNKNOWN_LENGTH, Budget, Snapshot, best_certificate, setting, snapshot
from demo.attacks.moves import CHUNK, RUNNERS_UP, SOFTNESS, Sentence, change, kicked, reorderings, replacements
from demo.attacks.readout import ReadoutSearch
from demo.attacks.rows import Rows
from demo.attacks.span import Span
from demo.judges import SpanJudge
from demo.leak import Certificate, Leak
from demo.lens import frequent_ids
from demo.readout import ReadoutJudge
from demo.subspace import View, read_length, views

MARGIN = 1e-7  # a score must fall by this to count as better: less is rounding
ARTICLES = 12  # frequent words that a stuck guess is tried with in every other place


@dataclass(frozen=True)
class Certified:
    """Best-first search judged by one matrix's subspace; stops when the gradient certifies the guess.

    The settings are those of this search; where one vector is all that leaks, `demo.attacks.readout` has its own.
    """

    about: ClassVar = (
        "Our strongest: searches whole sentences, guided by the span of the exposed gradient, and stops only when the "
        "guess's own gradient equals the leaked one."
    )
    words: int = setting(1000, "words shortlisted for the whole sentence", 50, 10_000)
    frequent: int = setting(60, "of the language's most frequent words, so many join the shortlist", 0, 1000)
    # 600 are all of them up to 20 words
    reorderings: int = setting(600, "reorderings tried of each guess, at most", 0, 5000)
    patience: int = setting(3, "guesses explored without progress before the search starts elsewhere", 1, 50)

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
        if view.read_row_only:
            readout = ReadoutJudge(leak.model, view, length, seed)
            yield from ReadoutSearch(leak, readout, length, seed).run(budget, step + 1)
        else:
            search = Search(self, leak, SpanJudge(leak.model, view, length, seed), length, seed)
            yield search.outlook(budget, step + 2)
            yield from search.run(budget, step + 2)


def searchable(leak: Leak) -> list[View]:
    """The views that can judge a guess, easiest first."""
    decoder = leak.model.net.decoder
    return [
        view
        for view in views(leak)
        if any(basis.shape[1] < basis.shape[0] - 1 for basis in view.bases)  # less one, as LayerNorm fixes the mean
        and (decoder is None or view.layer < decoder)
    ]


class Search:
    """One best-first search: every sentence scored so far, those still to explore, and the best of all."""

    def __init__(self, settings: Certified, leak: Leak, judge: SpanJudge, length: int, seed: int) -> None:
        self.settings, self.leak, self.judge, self.length = settings, leak, judge, length
        self.generator = torch.Generator().manual_seed(seed)
        self.frequent = frequent_ids(leak.model)[: settings.frequent]
        self.first_words = torch.cat([judge.shortlist(settings.words), self.frequent])
        self.words = self.first_words.unique()
        self.ranks = torch.empty(0)  # of the words in each place, for the guess explored last
        self.scores: dict[Sentence, float] = {}
        self.frontier: list[tuple[float, Sentence]] = []
        self.inner = range(1, length - 1)
        self.blank: Sentence = tuple(leak.model.blank(length).tolist())
        self.best = self.blank
        self.best_score = torch.inf
        self.best_proof: tuple[Certificate, int] | None = None  # its certificate and label, once computed

    def run(self, budget: Budget, step: int) -> Iterator[Snapshot]:
        """A snapshot per `CHUNK` of scored sentences: often enough to be watched, and to be stopped at once."""
        for taken, move in enumerate(self.moves(), step + 1):
            shot = self.picture(budget, taken, move)
            yield shot
            if budget.over(taken) or (shot.certificate and shot.certificate.holds):
                return

    def moves(self) -> Iterator[str]:
        """Searches for ever, and says of each chunk of sentences what it brought."""
        start, stuck = self.blank, Counter[Sentence]()
        while True:
            self.frontier, self.scores = [], {}  # what was tried from elsewhere may be tried again
            self.push([start])
            if start == self.blank:  # a place to start from, but nobody's guess, however well it scores
                self.best_score = torch.inf
            here, stalled = torch.inf, 0  # the best since this start, and for how long it has not moved
            while self.frontier and stalled < self.settings.patience:
                _, sentence = heapq.heappop(self.frontier)
                self.ranks = self.judge.rank(self.tensor([sentence])[0], self.words)
                yield from self.explore(sentence)
                score = self.frontier[0][0] if self.frontier else torch.inf
                here, stalled = (score, 0) if score < here - MARGIN else (here, stalled + 1)
            stuck[self.best] += 1
            start = yield from self.elsewhere(stuck[self.best])

    def elsewhere(self, times: int) -> Generator[str, None, Sentence]:
        """Where to go on from when the best guess has got stuck so many times: the cheapest remedies first."""
        best = self.best
        if times == 1:
            return self.refreshed(best)
        if times == 2:
            yield from self.push_all(replacements(best, self.articles()))
        return self.best if self.best != best else self.kicked(best)

    # -- what to try -------------------------------------------------------------------------------------------------

    def explore(self, sentence: Sentence) -> Iterator[str]:
        """Scores the neighbours of a guess, then the combinations of those that help and do not touch."""
        before = self.scores[sentence]
        neighbours = [*self.substitutions(sentence), *self.reorderings(sentence)]
        yield from self.push_all(neighbours)
        better = sorted((self.scores[s], s) for s in set(neighbours) if self.scores.get(s, before) < before)
        merged, touched, combined = list(sentence), set[int](), []
        for _, neighbour in better[:60]:
            places = {place for place in self.inner if neighbour[place] != sentence[place]}
            if not places & touched:
                touched |= places
                for place in places:
                    merged[place] = neighbour[place]
                combined.append(tuple(merged))
        yield from self.push_all(combined)

    def substitutions(self, sentence: Sentence) -> Iterator[Sentence]:
        """The best words for each place, one at a time; then the best of all places together, surest first."""
        ranks = self.ranks
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
        return reorderings(sentence, self.settings.reorderings, self.generator)

    def articles(self) -> list[int]:
        """The frequent words that would fit best somewhere."""
        common = torch.isin(self.words, self.frequent).nonzero()[:, 0]
        fit = self.ranks[1:-1, common].amin(0)
        return self.words[common[fit.topk(min(ARTICLES, len(common)), largest=False).indices]].tolist()

    def refreshed(self, best: Sentence) -> Sentence:
        """The same guess, with words shortlisted anew: a guess lends the lens a context."""
        ids = self.tensor([best])[0]
        self.words = torch.cat([self.judge.shortlist(self.settings.words, ids), ids[1:-1], self.first_words]).unique()
        return best

    def kicked(self, best: Sentence) -> Sentence:
        """The best guess with a random stretch moved elsewhere and some words drawn anew, as the lens sees fit."""
        chance = torch.softmax(-self.ranks[1:-1].cpu() / SOFTNESS, dim=1)
        drawn = self.words.cpu()[torch.multinomial(chance, 1, generator=self.generator)[:, 0]].tolist()
        return kicked(best, drawn, self.generator)

    # -- bookkeeping -------------------------------------------------------------------------------------------------

    def push_all(self, sentences: list[Sentence]) -> Iterator[str]:
        """Scores the sentences not seen yet, a chunk at a time, and says of each chunk what it brought."""
        fresh = [s for s in dict.fromkeys(sentences) if s not in self.scores]
        for start in range(0, len(fresh), CHUNK):
            before = self.best
            self.push(fresh[start : start + CHUNK])
            yield (
                f"{len(self.scores):,} sentences tried from here"
                if self.best == before
                else change(self.leak.model, before, self.best)
            )

    def push(self, sentences: list[Sentence]) -> None:
        """Scores sentences and adds them to the frontier."""
        for sentence, score in zip(sentences, self.judge.score(self.tensor(sentences)).tolist(), strict=True):
            self.scores[sentence] = score
            heapq.heappush(self.frontier, (score, sentence))
            if score < self.best_score - MARGIN:
                self.best, self.best_score, self.best_proof = sentence, score, None

    def tensor(self, sentences: list[Sentence]) -> Tensor:
        return torch.tensor(sentences, device=self.leak.model.device)

    def outlook(self, budget: Budget, step: int) -> Snapshot:
        """Before the first guess: any of the shortlisted words may stand anywhere."""
        ids, table = self.tensor([self.blank])[0], self.leak.model.words
        points = table[ids].clone()
        points[1:-1] = table[self.words].mean(0)
        return snapshot(
            self.leak.model, budget, step, ids, 1.0, f"{len(self.words):,} words may occur: trying them", points,
            confidence=torch.zeros(self.length),
        )  # fmt: skip

    def picture(self, budget: Budget, step: int, stage: str) -> Snapshot:
        """The best guess and its certificate; where the lens would as soon say other words, drawn towards those."""
        ids, table = self.tensor([self.best])[0], self.leak.model.words
        self.best_proof = self.best_proof or best_certificate(self.leak, ids)
        certificate, label = self.best_proof
        chance = torch.softmax(-self.ranks / SOFTNESS, dim=1)  # (tokens, words)
        sure = (chance * (self.words == ids[:, None])).sum(1)
        sure[0] = sure[-1] = 1
        sure = torch.ones_like(sure) if certificate.holds else sure
        points = sure[:, None] * table[ids] + (1 - sure[:, None]) * (chance @ table[self.words])
        shown = 0 if certificate.holds else RUNNERS_UP  # of what is proven there is no other
        others = self.words[self.ranks.topk(shown, dim=1, largest=False).indices]
        return snapshot(
            self.leak.model, budget, step, ids, self.best_score, stage, points, sure, others,
            certificate=certificate, label=label,
        )  # fmt: skip
