"""GRAB (Wang et al., CCS 2024): guess the words *and* what dropout did, by turns of descent and of discrete search.

Under dropout even the true sentence has another gradient than the leaked one, so a mask for every dropout site is moved
along with the dummies. Where we leave the paper, each a setting that can be put back:

- The distance is the cosine; the paper's squares and absolute values have to build every dummy gradient.
- Masks start at their mean. Drawn at random, as in the paper, they are mostly noise: fewer words were found.
- Where dropout is weak, masks come in with the second round: moved from the start, they explain what the words should
  explain. Where it is strong, the words do not settle without them.
- Sentences are compared with masks of their own, fitted for a few steps: in so few, only the truth gets along with
  little. (Under masks that were fitted to one sentence, all others look worse.)
- Several dummies descend side by side, as the rows of a batch cost little more than one.
- It starts from what can be read off the leak (`robust-span`, or the search judged without masks), not from noise.
"""

import itertools
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch

from demo.attacker.attacks.base import Budget, Snapshot, snapshot
from demo.attacker.attacks.descent import decode, fixed_ends, inner_places, not_matchable
from demo.attacker.attacks.masked import Descending, MaskedDummies, every
from demo.attacker.attacks.objectives import OF_DISTANCE
from demo.attacker.attacks.robust import RobustSpan
from demo.attacker.attacks.search import Search
from demo.attacker.attacks.sentence_moves import Sentence, reorderings, segments, some
from demo.attacker.leak import Leak
from demo.attacker.lens import frequent_ids
from demo.attacker.subspace import read_lengths
from demo.settings import setting

READING = 0.5  # of the budget, at most, goes into the first reading
SCORED = 64  # sentences scored at once
POOL = 24  # recovered words that the beam tries in every place
FREQUENT = 16  # of the language's most frequent words, so many are tried too: dummies seldom come upon "of"
JUDGED = 6  # sentences compared with masks of their own
FITTING = 12  # steps in which those masks are fitted
FITTING_RATE = 0.05  # and their learning rate, as a multiple of dropout's: faster, any sentence finds masks that fit it
CLIMBS = 10  # times that a better neighbour is looked for, at most, in a round
BETTER = 1e-3  # a round must lower a distance by this share to count as progress
Scored = tuple[float, Sentence]
Judge = Callable[[list[Sentence], str], Generator[Snapshot, None, list[Scored]]]


@dataclass(frozen=True)
class Grab(Descending):
    """Descent on word vectors and dropout masks, by turns with a search over the recovered words."""

    about: ClassVar = (
        "GRAB (Wang et al. 2024), for clients that train with dropout: learns a mask for each dropout site along with "
        "the words, and reorders what it found."
    )
    masks: bool = setting(True, "learn dropout's masks with the words")
    late_below: float = setting(0.2, "at dropout below this, masks come in with the second round (paper: 0)", 0.0, 1.0)
    start: str = setting("read", "start from what can be read off the leak, or from noise", choices=("read", "noise"))
    steps: int = setting(150, "descent steps in a round (paper: 2000)", 1, 5000)
    rounds: int = setting(5, "rounds of descent and search, at most", 1, 50)
    orders: int = setting(200, "reorderings tried in a round (paper: 2000)", 0, 5000)
    beam: int = setting(4, "sentences kept in the beam search", 1, 64)

    def supports(self, leak: Leak) -> str | None:
        return not_matchable(leak)

    def run(self, leak: Leak, budget: Budget, seed: int = 0) -> Iterator[Snapshot]:
        step, reading = 0, None
        if self.start == "read":
            for reading in first_reading(leak, budget, seed):
                step = reading.step
                yield replace(reading, stage=f"reading: {reading.stage}")
            if reading is not None and reading.certified:
                return
        for shot in Hunt(self, leak, budget, seed, reading).run(step):
            yield shot
            if budget.over(shot.step):
                return


def first_reading(leak: Leak, budget: Budget, seed: int) -> Iterator[Snapshot]:
    """What can be read without masks: off layer 0's span, or by the search, in a part of the budget."""
    part = replace(budget, seconds=READING * budget.seconds)
    if RobustSpan().supports(leak) is None:
        yield from RobustSpan().run(leak, part, seed)
    elif Search().supports(leak) is None:
        yield from Search().run(leak, part, seed)


class Hunt(MaskedDummies):
    """The dummies and their masks, and the best sentence found so far."""

    def __init__(self, settings: Grab, leak: Leak, budget: Budget, seed: int, reading: Snapshot | None) -> None:
        lengths = read_lengths(leak)
        assert lengths is not None
        found = [len(ids) for ids in leak.sentences(reading.ids)] if reading is not None else []
        if found != list(lengths):  # a guess at a batch, stopped while a sentence of it had another's length
            reading = None
        super().__init__(settings, leak, lengths, seed, reading)
        self.settings, self.budget = settings, budget
        self.learns, self.late = settings.masks and leak.dropout > 0, leak.dropout < settings.late_below
        self.inner = inner_places(leak.model, lengths)
        self.best: Sentence | None = tuple(reading.ids.tolist()) if reading is not None else None
        self.best_distance, self.step = torch.inf, 0
        self.near: tuple[Sentence, list[Sentence]] = (), []  # a sentence, and its neighbours

    def run(self, step: int) -> Iterator[Snapshot]:
        self.step = step
        for n in range(self.settings.rounds):
            if self.learns and not self.masks and (n or self.best or not self.late):
                self.learn_masks()
            before = float(self.distances.min()), self.best_distance
            yield from self.descend(f"round {n + 1}: words" + (" and masks" if self.masks else ""))
            yield from self.rearrange(f"round {n + 1}")
            after = float(self.distances.min()), self.best_distance
            if n and all(now > (1 - BETTER) * then for now, then in zip(after, before, strict=True)):
                break
        yield self.picture("nothing improves any more")

    # -- words and masks ---------------------------------------------------------------------------------------------

    def descend(self, stage: str) -> Iterator[Snapshot]:
        moved = [self.words, *self.labels.parameters(), *every(self.masks)]
        rate, count = self.settings.rate, self.settings.steps
        for n, distances in enumerate(self.steps(moved, self.words, self.masks, rate, count), 1):
            self.distances = distances
            yield self.picture(f"{stage}, step {n} of {count}")

    # -- the discrete stage ------------------------------------------------------------------------------------------

    def rearrange(self, stage: str) -> Iterator[Snapshot]:
        """From the best dummies' words to a sentence, which then takes the place of the worst dummies."""
        row = int(self.distances.argmin())
        decoded: Sentence = tuple(decode(self.model, self.words[row].detach(), self.lengths)[0].tolist())
        beam = yield from self.beamed([decoded, *([self.best] if self.best else [])], f"{stage}: reordering")
        self.best_distance, self.best = yield from self.climbed(beam, stage)
        with torch.no_grad():
            worst = int(self.distances.argmax()) if len(self.distances) > 1 else row
            self.words[worst] = self.model.words[torch.tensor(self.best, device=self.model.device)]
            for mask in every(self.masks):
                mask[worst] = mask[row]

    def beamed(self, sentences: list[Sentence], stage: str) -> Generator[Snapshot, None, list[Sentence]]:
        """Reorders the best of them, then tries the recovered words in every place; those sentences stay in."""
        beam = sorted((yield from self.scored(sentences, stage)))
        found = yield from self.scored(self.reordered(beam[0][1]), stage)
        beam = sorted([*beam, *found])[: self.settings.beam]
        pool = self.pool()
        for place in self.inner.tolist():
            tried = [(*s[:place], word, *s[place + 1 :]) for _, s in beam for word in pool if word != s[place]]
            found = yield from self.scored(tried, stage)
            beam = sorted({*beam, *found})[: self.settings.beam]
        return list(dict.fromkeys([*(sentence for _, sentence in beam), *sentences]))

    def climbed(self, sentences: list[Sentence], stage: str) -> Generator[Snapshot, None, Scored]:
        """The best of some sentences and of its neighbours, as long as one is better: first as they are, which is soon
        said, then with masks of their own."""
        best = min((yield from self.scored(sentences, stage)))
        best = yield from self.uphill(best, self.scored, stage)
        if self.learns:
            known = [best[1], *([self.best] if self.best else []), *sentences]
            best = min((yield from self.judged(list(dict.fromkeys(known))[:JUDGED], stage)))
            best = yield from self.uphill(best, self.judged, stage)
        return best

    def uphill(self, best: Scored, judge: Judge, stage: str) -> Generator[Snapshot, None, Scored]:
        for _ in range(CLIMBS):
            if judge == self.judged or not self.masks:  # what was judged with masks is not given up for what was not
                self.best_distance, self.best = best
            likely = [sentence for sentence in (yield from self.neighbours(best[1], stage)) if sentence != best[1]]
            found = min((yield from judge([best[1], *likely[: JUDGED - 1]], stage)))
            if found[1] == best[1]:
                return found
            best = found
        return best

    def neighbours(self, sentence: Sentence, stage: str) -> Generator[Snapshot, None, list[Sentence]]:
        """Other orders, and recovered words in other places, the likeliest first."""
        if self.near[0] != sentence:
            words = [(*sentence[:k], word, *sentence[k + 1 :]) for k in self.inner.tolist() for word in self.pool()]
            found = yield from self.scored([*self.reordered(sentence), *words], f"{stage}: neighbours")
            self.near = sentence, [neighbour for _, neighbour in sorted(found)]
        return self.near[1]

    def reordered(self, sentence: Sentence) -> list[Sentence]:
        """Within one sentence, words and phrases move; in a batch, any two words change places."""
        orders = self.settings.orders
        if self.lengths == (len(sentence),):
            return [s for f in (reorderings, segments) for s in f(sentence, orders // 2, self.generator)]
        found = []
        for one, other in itertools.combinations(self.inner.tolist(), 2):
            exchanged = list(sentence)
            exchanged[one], exchanged[other] = exchanged[other], exchanged[one]
            found.append(tuple(exchanged))
        return some(found, orders, self.generator)

    def judged(self, sentences: list[Sentence], stage: str) -> Generator[Snapshot, None, list[Scored]]:
        """Returns each sentence's distance, with masks of its own."""
        words = self.model.words[torch.tensor(sentences, device=self.model.device)]
        masks = self.fresh_masks(len(sentences))
        left = torch.zeros(len(sentences))
        rate = FITTING_RATE * (1 - self.kept)
        for n, distances in enumerate(self.steps(every(masks), words, masks, rate, FITTING), 1):
            left = distances
            yield self.picture(f"{stage}: masks of {len(sentences)} sentences, step {n} of {FITTING}")
        return list(zip(left.tolist(), sentences, strict=True))

    def pool(self) -> list[int]:
        """The words that the dummies decode to, the surest first; and frequent ones."""
        found: dict[int, float] = {}
        for words in self.words.detach():
            ids, sure, _ = decode(self.model, words, self.lengths)
            for word, chance in zip(ids[self.inner].tolist(), sure[self.inner].tolist(), strict=True):
                found[word] = max(chance, found.get(word, 0.0))
        known = [self.best[place] for place in self.inner.tolist()] if self.best else []
        likely = list(dict.fromkeys([*known, *sorted(found, key=lambda word: -found[word])]))[:POOL]
        return list(dict.fromkeys([*likely, *frequent_ids(self.model)[:FREQUENT].tolist()]))

    def scored(self, sentences: list[Sentence], stage: str) -> Generator[Snapshot, None, list[tuple[float, Sentence]]]:
        """Returns each sentence's distance, every mask at its mean; a snapshot for each batch of them."""
        found: list[Scored] = []
        fresh = list(dict.fromkeys(sentences))
        for start in range(0, len(fresh), SCORED):
            part = fresh[start : start + SCORED]
            words = self.model.words[torch.tensor(part, device=self.model.device)]
            found += zip(self.distance(words, [], graph=False).tolist(), part, strict=True)
            yield self.picture(f"{stage}, {start + len(part)} of {len(fresh)} tried")
        return found

    @torch.no_grad()
    def picture(self, stage: str) -> Snapshot:
        """The nearest dummies; at the end, or where a sentence was found, that sentence."""
        self.step += 1
        row = int(self.distances.argmin())
        words = fixed_ends(self.model, self.words, self.lengths)[row]
        ids, sure, others = decode(self.model, words, self.lengths)
        if self.best:
            ids = torch.tensor(self.best, device=self.model.device)
        own = [masks["embedding"][row] for masks in self.masks if "embedding" in masks]  # some drop out attention alone
        kept = torch.cat(own) > 0.5 if own else None
        picture = partial(snapshot, labels=self.labels.most_likely(), meaning=OF_DISTANCE[self.settings.distance])
        distance = float(self.distances[row])
        return picture(self.model, self.budget, self.step, ids, distance, stage, words, sure, others, kept=kept)
