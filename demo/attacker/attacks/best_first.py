"""Best-first search over whole sentences, judged by the subspace of one exposed matrix.

Take the most promising guess not yet explored, let the judge's lens propose words for each place, add reorderings,
score them all by one forward pass up to the exposed matrix, combine the changes that help, repeat. No continuous
descent is needed: the span judge's distance falls with every right word, and the lens finds it among thirty thousand.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from demo.attacker.attacks.sentence_moves import (
    CHUNK,
    RUNNERS_UP,
    SOFTNESS,
    Sentence,
    change,
    combined,
    kicked,
    longer,
    reorderings,
    replacements,
    segments,
    shorter,
)
from demo.attacker.judges import SpanJudge
from demo.attacker.lens import frequent_ids
from demo.attacker.subspace import View
from demo.settings import setting
from demo.victim.model import Model

MARGIN = 1e-7  # a score must fall by this to count as better: less is rounding
ARTICLES = 12  # frequent words that a stuck guess is tried with in every other place
INSERTED = 12  # words tried between any two of a guess whose length is open


@dataclass(frozen=True)
class Effort:
    """How widely to search; `Search` has these as its settings."""

    words: int = setting(1000, "words shortlisted for the whole sentence", 50, 10_000)
    frequent: int = setting(60, "of the language's most frequent words, so many join the shortlist", 0, 1000)
    # 600 are all of them up to 20 words
    reorderings: int = setting(600, "reorderings tried of each guess, at most", 0, 5000)
    patience: int = setting(3, "guesses explored without progress before the search starts elsewhere", 1, 50)


@dataclass(frozen=True, eq=False)
class Look:
    """The best guess as it shall be shown: where the lens would as soon say other words, drawn towards those."""

    ids: Tensor
    points: Tensor
    sure: Tensor
    others: Tensor


class BestFirst:
    """One search: every sentence scored so far, those still to explore, and the best of all."""

    def __init__(
        self,
        effort: Effort,
        model: Model,
        view: View,
        lengths: Sequence[int],
        seed: int,
        total: int = 0,
        batch: int = 1,
        words: Tensor | None = None,
    ) -> None:
        """A guess may have any of the lengths, and those between: of a batch, a search does not know which it finds.

        `words` are all that may occur, where that is known.
        """
        self.effort, self.model, self.closed = effort, model, words is not None
        self.lengths = range(min(lengths), max(lengths) + 1)
        self.judges = {n: SpanJudge(model, view, n, seed, total, batch) for n in self.lengths}
        self.generator = torch.Generator().manual_seed(seed)
        self.frequent = frequent_ids(model)[: effort.frequent]
        middle = self.judges[sorted(lengths)[len(lengths) // 2]]
        self.first_words = words if words is not None else torch.cat([middle.shortlist(effort.words), self.frequent])
        self.words = self.first_words.unique()
        self.ranks = torch.empty(0, 0)  # of the words in each place, for the guess explored last
        self.scores: dict[Sentence, float] = {}
        self.frontier: list[tuple[float, Sentence]] = []
        self.blanks: list[Sentence] = [tuple(model.blank(n).tolist()) for n in sorted(set(lengths))]
        self.best = self.blanks[0]
        self.best_score = torch.inf
        self.stuck = Counter[Sentence]()  # how often a guess was the best when the search got stuck

    def moves(self) -> Iterator[str]:
        """Searches for ever, and says of each chunk of sentences what it brought."""
        starts = self.blanks
        while True:
            self.frontier, self.scores = [], {}  # what was tried from elsewhere may be tried again
            self.push(starts)
            if starts == self.blanks:  # a place to start from, but nobody's guess, however well it scores
                self.best_score = torch.inf
            here, stalled = torch.inf, 0  # the best since this start, and for how long it has not moved
            while self.frontier and stalled < self.effort.patience:
                _, sentence = heapq.heappop(self.frontier)
                self.ranks = self.judges[len(sentence)].rank(self.tensor([sentence])[0], self.words)
                yield from self.explore(sentence)
                score = self.frontier[0][0] if self.frontier else torch.inf
                here, stalled = (score, 0) if score < here - MARGIN else (here, stalled + 1)
            self.stuck[self.best] += 1
            start = yield from self.elsewhere(self.stuck[self.best])
            starts = [start]

    def elsewhere(self, times: int) -> Generator[str, None, Sentence]:
        """Where to go on from when the best guess has got stuck so many times: the cheapest remedies first."""
        best = self.best
        if times == 1 and not self.closed:
            return self.refreshed(best)
        if times <= 2:
            yield from self.push_all(replacements(best, self.articles()))
        return self.best if self.best != best else self.kicked(best)

    # -- what to try -------------------------------------------------------------------------------------------------

    def explore(self, sentence: Sentence) -> Iterator[str]:
        """Scores the neighbours of a guess, then the combinations of those that help and do not touch."""
        before = self.scores[sentence]
        neighbours = [*self.substitutions(sentence), *self.reorderings(sentence)]
        yield from self.push_all([*neighbours, *self.resized(sentence)])
        better = sorted((self.scores[s], s) for s in set(neighbours) if self.scores.get(s, before) < before)
        yield from self.push_all(combined(sentence, [neighbour for _, neighbour in better[:60]]))

    def substitutions(self, sentence: Sentence) -> Iterator[Sentence]:
        """The best words for each place, one at a time; then the best of all places together, surest first."""
        ranks, judge = self.ranks, self.judges[len(sentence)]
        top = ranks.topk(min(judge.per_place, ranks.shape[1]), dim=1, largest=False)
        words = self.words[top.indices].tolist()
        common = torch.isin(self.words, self.frequent).nonzero()[:, 0]
        often = ranks[:, common].topk(min(judge.frequent, len(common)), dim=1, largest=False)
        more = self.words[common[often.indices]].tolist()
        inner = range(1, len(sentence) - 1)
        for place in inner:
            for word in words[place] + more[place]:
                yield (*sentence[:place], word, *sentence[place + 1 :])
        together = list(sentence)
        for place in sorted(inner, key=lambda place: float(top.values[place, 0])):
            together[place] = words[place][0]
            yield tuple(together)

    def reorderings(self, sentence: Sentence) -> list[Sentence]:
        found = reorderings(sentence, self.effort.reorderings, self.generator)
        # Guesses at a batch mix its sentences, and whole phrases have to find their place.
        return found + segments(sentence, self.effort.reorderings, self.generator) if self.closed else found

    def resized(self, sentence: Sentence) -> list[Sentence]:
        """One word less, or one more of those that fit best, where the length is open."""
        found = shorter(sentence) if len(sentence) - 1 in self.lengths else []
        if len(sentence) + 1 in self.lengths:
            fit = self.ranks[1:-1].amin(0).topk(min(INSERTED, len(self.words)), largest=False).indices
            found += longer(sentence, self.words[fit].tolist())
        return found

    def articles(self) -> list[int]:
        """The frequent words that would fit best somewhere."""
        common = torch.isin(self.words, self.frequent).nonzero()[:, 0]
        fit = self.ranks[1:-1, common].amin(0)
        return self.words[common[fit.topk(min(ARTICLES, len(common)), largest=False).indices]].tolist()

    def refreshed(self, best: Sentence) -> Sentence:
        """The same guess, with words shortlisted anew: a guess lends the lens a context."""
        ids = self.tensor([best])[0]
        fresh = self.judges[len(best)].shortlist(self.effort.words, ids)
        self.words = torch.cat([fresh, ids[1:-1], self.first_words]).unique()
        return best

    def kicked(self, best: Sentence) -> Sentence:
        """The best guess with a random stretch moved elsewhere and some words drawn anew, as the lens sees fit."""
        chance = torch.softmax(-self.ranks_of(best)[1:-1].cpu() / SOFTNESS, dim=1)
        drawn = self.words.cpu()[torch.multinomial(chance, 1, generator=self.generator)[:, 0]].tolist()
        return kicked(best, drawn, self.generator)

    # -- bookkeeping -------------------------------------------------------------------------------------------------

    def ranks_of(self, sentence: Sentence) -> Tensor:
        """Those of the guess explored last will do, if it is as long."""
        if len(self.ranks) == len(sentence):
            return self.ranks
        return self.judges[len(sentence)].rank(self.tensor([sentence])[0], self.words)

    def push_all(self, sentences: list[Sentence]) -> Iterator[str]:
        """Scores the sentences not seen yet, a chunk at a time, and says of each chunk what it brought."""
        fresh = [s for s in dict.fromkeys(sentences) if s not in self.scores]
        for start in range(0, len(fresh), CHUNK):
            before = self.best
            self.push(fresh[start : start + CHUNK])
            yield (
                f"{len(self.scores):,} sentences tried from here"
                if self.best == before
                else change(self.model, before, self.best)
            )

    def push(self, sentences: list[Sentence]) -> None:
        """Scores sentences and adds them to the frontier."""
        for length, group in itertools.groupby(sorted(sentences, key=len), key=len):
            alike = list(group)
            for sentence, score in zip(alike, self.judges[length].score(self.tensor(alike)).tolist(), strict=True):
                self.scores[sentence] = score
                heapq.heappush(self.frontier, (score, sentence))
                if score < self.best_score - MARGIN:
                    self.best, self.best_score = sentence, score

    def tensor(self, sentences: list[Sentence]) -> Tensor:
        return torch.tensor(sentences, device=self.model.device)

    def look(self, proven: bool = False) -> Look:
        ids, table = self.tensor([self.best])[0], self.model.words
        ranks = self.ranks_of(self.best)
        chance = torch.softmax(-ranks / SOFTNESS, dim=1)  # (tokens, words)
        sure = (chance * (self.words == ids[:, None])).sum(1)
        sure[0] = sure[-1] = 1
        sure = torch.ones_like(sure) if proven else sure
        points = sure[:, None] * table[ids] + (1 - sure[:, None]) * (chance @ table[self.words])
        shown = 0 if proven else min(RUNNERS_UP, len(self.words))  # of what is proven there is no other
        return Look(ids, points, sure, self.words[ranks.topk(shown, dim=1, largest=False).indices])
