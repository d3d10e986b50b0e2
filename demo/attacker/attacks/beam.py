"""A beam search for words that add up to a known vector, and the search where only a decoder leaks.

Each word at each place adds something to what the decoder's asking token gathers (`asking`). While most words are
unknown, what they add is noise to the one in question: a right word hardly stands out. So the hundred likeliest sets of
words are kept, one more word is added to each, and so on. A set's chance is how likely the unknown rest would make what
is left over, times how frequent its words are. Where the places of words hardly matter to the sum, every order of a set
is about as likely: a set is kept once. What the beam ends with is brought in order by `attacks.readout`.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from demo.attacker.attacks.readout import ReadoutSearch
from demo.attacker.attacks.sentence_moves import Sentence
from demo.attacker.decoder import CHUNK, DecoderJudge, precise_whitener
from demo.attacker.leak import Leak
from demo.attacker.lens import BATCH, frequent_ids, random_sentences
from demo.attacker.readout import second_moment
from demo.turns import ticking
from demo.victim.model import Model

WIDTH = 100  # sets of words kept
CHOICES = 3000  # words that may stand at a place
MORE = 20  # times as many continuations are looked at, as most are another order of one set
SKETCH = 128  # random directions are enough to tell thousands of words apart
RARE = 0.1  # of all words are drawn evenly, the others as frequent as in a language
TRIED = 4 * BATCH  # random sentences that tell how far sums are from what leaks


class Beam:
    """The sets of words kept: `chosen` (sets, places) are indices into `words`, -1 where a place is still open."""

    def __init__(self, judge: DecoderJudge) -> None:
        self.judge, self.model, self.places = judge, judge.model, judge.length - 2
        self.words = torch.empty(0)  # (places, choices): the likeliest at each place, the likeliest first
        self.chosen = torch.full((1, self.places), -1, device=self.model.device)

    def prepare(self) -> Iterator[str]:
        """What each word adds to the average sentence, weighed as the others' sum varies; the likeliest are kept."""
        judge, samples = self.judge, random_sentences(self.model, TRIED, self.judge.length, self.judge.seed + 2)
        field = judge.field(samples)
        added = torch.stack([judge.placed(field, p, samples[:, p]) for p in self.inner]) - field.vector
        beyond = judge.usual(judge.vectors(samples)) - field.vector - added.sum(0)  # what is more than a sum
        rest = beyond.mean(0)
        spread = second_moment(added.flatten(0, 1)) + second_moment(beyond - rest) / self.places
        whitener = precise_whitener(spread)
        if whitener.shape[1] > SKETCH:
            drawn = torch.randn(whitener.shape[1], SKETCH, generator=torch.Generator().manual_seed(judge.seed))
            whitener = whitener @ drawn.to(whitener) / SKETCH**0.5
        self.noise = float(((beyond - rest) @ whitener).square().mean())
        self.left = ((judge.usual(judge.target) - field.vector - rest) @ whitener)[None]  # (sets, width)
        self.chance = torch.zeros(1, device=self.model.device)
        every, found = frequencies(self.model).log(), []
        for place in self.inner:
            parts = [judge.placed(field, place, part) for part in ticking(self.model.ordinary.split(CHUNK))]
            steps = (torch.cat(parts) - field.vector) @ whitener
            likely = every - (self.left - steps).square().sum(1) / (2 * (self.places - 1 + self.noise))
            best = likely.topk(min(CHOICES, len(likely))).indices
            found.append((self.model.ordinary[best], steps[best], every[best]))
            yield f"which words fit: place {place} of {self.places}"
        self.words, self.steps, self.prior = (torch.stack(parts) for parts in zip(*found, strict=True))

    @property
    def inner(self) -> range:
        return range(1, self.judge.length - 1)

    def extend(self) -> None:
        """Adds a word to each set, at whichever place, and keeps the likeliest sets."""
        spread = float((self.chosen[0] < 0).sum()) - 1 + self.noise
        products = torch.einsum("bx,pkx->bpk", self.left, self.steps)
        misfit = self.left.square().sum(1)[:, None, None] - 2 * products + self.steps.square().sum(2)
        chance = self.chance[:, None, None] + self.prior - misfit / (2 * spread)
        chance = chance.masked_fill((self.chosen >= 0)[:, :, None], -torch.inf)
        best = chance.flatten().topk(min(MORE * WIDTH, chance.numel())).indices
        sets, places, words = torch.unravel_index(best, chance.shape)
        grown = self.chosen[sets]
        grown[torch.arange(len(grown)), places] = words
        first: dict[Sentence, int] = {}
        for n, sentence in enumerate(self.sentences(grown).sort(1).values.tolist()):
            first.setdefault(tuple(sentence), n)
        kept = torch.tensor(list(first.values())[:WIDTH], device=best.device)
        sets, places, words = sets[kept], places[kept], words[kept]
        self.chosen, self.left = grown[kept], self.left[sets] - self.steps[places, words]
        self.chance = self.chance[sets] + self.prior[places, words]

    def sentences(self, chosen: Tensor) -> Tensor:
        """Sets of words -> (sets, tokens) ids, [MASK] where a place is open."""
        ids = self.model.blank(self.judge.length).repeat(len(chosen), 1)
        words = self.words[torch.arange(self.places, device=chosen.device), chosen.clamp_min(0)]
        ids[:, 1:-1] = torch.where(chosen >= 0, words, ids[:, 1:-1])
        return ids


class DecoderSearch(ReadoutSearch):
    """The beam, and from what it ends with the search where one vector leaks."""

    def __init__(self, leak: Leak, judge: DecoderJudge, length: int, seed: int) -> None:
        super().__init__(leak, judge, length, seed)
        self.beam = Beam(judge)

    def search(self) -> Iterator[str]:
        yield from self.beam.prepare()
        self.words = self.beam.words
        self.ranks = 0.1 * torch.arange(self.words.shape[1]).log1p().to(self.words.device).expand(self.words.shape)
        for n in range(1, self.beam.places + 1):
            self.beam.extend()
            self.show(self.beam.sentences(self.beam.chosen[:1]))
            yield f"{len(self.beam.chosen)} sets of {n} words add up to nearly what leaks"
        self.show(self.beam.sentences(self.beam.chosen))
        yield from super().search()

    def show(self, ids: Tensor) -> None:
        """Goes on from the nearest of some guesses."""
        sites = self.judge.sites(ids)
        nearest = int(self.judge.distance(sites).argmin())
        self.best, self.best_site = tuple(ids[nearest].tolist()), sites[nearest]


def frequencies(model: Model) -> Tensor:
    """How often each ordinary word occurs in text, roughly: Zipf's law over the vocabulary, as BERT sorts it."""
    frequent = frequent_ids(model)
    zipf = 1 / torch.arange(20, 20 + len(frequent), device=model.device)
    chance = torch.zeros(len(model.words), device=model.device)
    chance[frequent] = zipf / zipf.sum()
    return (1 - RARE) * chance[model.ordinary] + RARE / len(model.ordinary)
