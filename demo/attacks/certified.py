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

from demo.attacks.base import Budget, Snapshot, best_certificate, snapshot
from demo.attacks.rows import Rows
from demo.attacks.span import Span
from demo.judges import Judge, ReadoutJudge, SpanJudge, frequent_ids
from demo.leak import Leak
from demo.models import Model
from demo.subspace import View, read_length, views

Sentence = tuple[int, ...]
SOFTNESS = 0.05  # turns the judge's ranks into confidences on screen


@dataclass(frozen=True)
class Certified:
    """Best-first search judged by one matrix's subspace; stops when the gradient certifies the guess."""

    words: int = 1000  # how many words the judge shortlists for the whole sentence
    frequent: int = 60  # and how many of the language's most frequent ones join them
    patience: int = 4  # explorations without progress before the search looks elsewhere

    def supports(self, leak: Leak) -> str | None:
        if Rows().supports(leak) is None:
            return None
        if not views(leak):
            return "no exposed matrix carries a gradient"
        if read_length(leak) is None:
            return "the length is unknown and cannot be read from the rank of the last layer: tell it"
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
        length = read_length(leak)
        assert length is not None
        view = views(leak)[0]
        yield snapshot(
            leak.model, budget, step + 1, blank(leak.model, length), 1.0, f"fitting a lens on {view.piece.name}",
            confidence=torch.zeros(length),
        )  # fmt: skip
        judge = judge_for(leak, view, length, seed)
        yield from Search(self, leak, judge, length, seed).run(budget, step + 1)


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
        best, best_score, stalled = tuple(blank(self.leak.model, self.length).tolist()), torch.inf, 0
        self.push([best])
        while not budget.over(step):
            step += 1
            score, sentence = self.pop()
            ranks = self.judge.rank(self.tensor([sentence])[0], self.words)
            self.explore(sentence, ranks)
            score, sentence = self.frontier[0] if self.frontier else (score, sentence)
            if score < best_score - 1e-7:
                best, best_score, stalled = sentence, score, 0
            else:
                stalled += 1
            ids = self.tensor([best])[0]
            certificate, label = best_certificate(self.leak, ids)
            yield self.picture(budget, step, best, ranks, best_score, "searching", certificate, label)
            if certificate.holds:
                return
            if stalled and stalled % self.settings.patience == 0:
                if stalled == self.settings.patience:
                    self.refresh(best)
                else:
                    self.kick(best, ranks)

    # -- what to try -------------------------------------------------------------------------------------------------

    def explore(self, sentence: Sentence, ranks: Tensor) -> None:
        """Scores the neighbours of a guess, then the combinations of those that help and do not touch."""
        before = self.scores[sentence]
        neighbours = [*self.substitutions(sentence, ranks), *self.reorderings(sentence)]
        self.push(neighbours)
        better = sorted((self.scores[s], s) for s in set(neighbours) if self.scores[s] < before)
        merged, touched, combined = list(sentence), set[int](), []
        for _, neighbour in better[:60]:
            places = {place for place in self.inner if neighbour[place] != sentence[place]}
            if not places & touched:
                touched |= places
                for place in places:
                    merged[place] = neighbour[place]
                combined.append(tuple(merged))
        self.push(combined)

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

    def reorderings(self, sentence: Sentence) -> Iterator[Sentence]:
        """Every exchange of two tokens, and every token taken out and put back elsewhere."""
        for one, other in itertools.combinations(self.inner, 2):
            exchanged = list(sentence)
            exchanged[one], exchanged[other] = exchanged[other], exchanged[one]
            yield tuple(exchanged)
        for source, target in itertools.permutations(self.inner, 2):
            moved = list(sentence)
            moved.insert(target, moved.pop(source))
            yield tuple(moved)

    def refresh(self, best: Sentence) -> None:
        """Shortlists from the whole vocabulary again, now that the guess lends the lens a context, and goes on."""
        ids = self.tensor([best])[0]
        self.words = torch.cat([self.judge.shortlist(self.settings.words, ids), ids[1:-1], self.first_words]).unique()
        self.restart(best)

    def kick(self, best: Sentence, ranks: Tensor) -> None:
        """Moves a random stretch of the best guess elsewhere and draws some of its words anew, as the lens sees fit."""
        chance = torch.softmax(-ranks.cpu() / SOFTNESS, dim=1)
        drawn = self.words.cpu()[torch.multinomial(chance, 1, generator=self.generator)[:, 0]].tolist()
        share = 0.2 + 0.8 * float(torch.rand(1, generator=self.generator))
        renewed = (torch.rand(self.length, generator=self.generator) < share).tolist()
        inner = [drawn[i] if renewed[i] else best[i] for i in self.inner]
        start, end, target = sorted(torch.randint(len(inner) + 1, (3,), generator=self.generator).tolist())
        inner = inner[:start] + inner[end:target] + inner[start:end] + inner[target:]
        self.restart((best[0], *inner, best[-1]))

    def restart(self, sentence: Sentence) -> None:
        self.frontier, self.scores = [], {}
        self.push([sentence])

    # -- bookkeeping -------------------------------------------------------------------------------------------------

    def push(self, sentences: list[Sentence]) -> None:
        fresh = [s for s in dict.fromkeys(sentences) if s not in self.scores]
        if fresh:
            for sentence, score in zip(fresh, self.judge.score(self.tensor(fresh)).tolist(), strict=True):
                self.scores[sentence] = score
                heapq.heappush(self.frontier, (score, sentence))

    def pop(self) -> tuple[float, Sentence]:
        return heapq.heappop(self.frontier)

    def tensor(self, sentences: list[Sentence]) -> Tensor:
        return torch.tensor(sentences, device=self.leak.model.device)

    def picture(self, budget, step, sentence, ranks, score, stage, certificate, label) -> Snapshot:
        """The best guess, with the lens's doubts as blurred word vectors and confidences."""
        chance = torch.softmax(-ranks / SOFTNESS, dim=1)
        ids = self.tensor([sentence])[0]
        own = (self.words[None] == ids[:, None]).float()
        confidence = (chance * own).sum(1)
        confidence[0] = confidence[-1] = 1
        return snapshot(
            self.leak.model,
            budget,
            step,
            ids,
            score,
            stage,
            confidence=confidence,
            certificate=certificate,
            label=label,
        )


def blank(model: Model, length: int) -> Tensor:
    """[CLS] [MASK] … [MASK] [SEP]."""
    ids = torch.full((length,), model.tokenizer.mask_token_id, device=model.device)
    ids[0], ids[-1] = model.first_last
    return ids
