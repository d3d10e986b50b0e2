"""GRAB (Wang et al., CCS 2024): guess the words *and* what dropout did, by turns of descent and of discrete search.

Under dropout even the true sentence has another gradient than the leaked one, so a mask for every dropout site is moved
along with the dummies. Where we leave the paper, each a setting that can be put back:

- The distance is the cosine; the paper's squares and absolute values have to build every dummy gradient.
- Masks start at their mean. Drawn at random, as in the paper, they are mostly noise: fewer words were found.
- Several dummies descend side by side, as the rows of a batch cost little more than one.
- It starts from what can be read off the leak (`robust-span`, or the search judged without masks), not from noise.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from demo.attacks.base import Budget, Snapshot, snapshot
from demo.attacks.certified import Certified
from demo.attacks.descent import LabelGuess, decode, fixed_ends, inner_places, not_matchable
from demo.attacks.moves import Sentence, reorderings, segments
from demo.attacks.robust import RobustSpan
from demo.leak import Leak
from demo.matching import Matcher
from demo.settings import setting
from demo.subspace import read_lengths

READING = 0.5  # of the budget, at most, goes into the first reading
SCORED = 16  # sentences scored at once
POOL = 24  # recovered words that the beam tries in every place
BETTER = 1e-3  # a round must lower a distance by this share to count as progress


@dataclass(frozen=True)
class Grab:
    """Descent on word vectors and dropout masks, by turns with a search over the recovered words."""

    about: ClassVar = (
        "GRAB (Wang et al. 2024), for clients that train with dropout: learns a mask for each dropout site along with "
        "the words, and reorders what it found."
    )
    masks: bool = setting(True, "learn dropout's masks with the words")
    first_masks: str = setting(
        "mean", "where the masks start: at their mean, or drawn (paper)", choices=("mean", "drawn")
    )
    start: str = setting("read", "start from what can be read off the leak, or from noise", choices=("read", "noise"))
    distance: str = setting("cosine", "how far two gradients are apart", choices=("cosine", "l2", "l2+l1"))
    rate: float = setting(0.01, "learning rate of words and masks", 1e-4, 1.0)
    decay: float = setting(0.89, "the learning rate is multiplied by this every 50 steps", 0.1, 1.0)
    alpha: float = setting(0.01, "weight of the L1 term", 0.0, 10.0)
    length_pull: float = setting(1.0, "pull the dummies' mean length towards the words'", 0.0, 10.0)
    rows: int = setting(4, "dummies that descend side by side", 1, 64)
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
    elif Certified().supports(leak) is None:
        yield from Certified().run(leak, part, seed)


class Hunt:
    """The dummies and their masks, a row for each candidate, and the best sentence found so far."""

    def __init__(self, settings: Grab, leak: Leak, budget: Budget, seed: int, reading: Snapshot | None) -> None:
        lengths = read_lengths(leak)
        assert lengths is not None
        self.settings, self.model, self.budget, self.lengths = settings, leak.model, budget, lengths
        self.kept = 1 - leak.dropout
        self.matcher, self.labels = Matcher(leak, lengths, settings.alpha), LabelGuess(leak)
        self.generator = torch.Generator().manual_seed(seed)
        self.inner = inner_places(leak.model, lengths)
        self.size = float(leak.model.words.norm(dim=1).mean())
        found = [len(ids) for ids in leak.sentences(reading.ids)] if reading is not None else []
        if found != list(lengths):  # a guess at a batch, stopped while a sentence of it had another's length
            reading = None
        self.words = self.first_words(reading)
        self.masks: list[dict[str, Tensor]] = []  # of each sentence, once they are learned
        self.kept_first = reading.kept if reading is not None else None
        self.distances = torch.full((settings.rows,), torch.inf)
        self.best: Sentence | None = tuple(reading.ids.tolist()) if reading is not None else None
        self.best_distance, self.step = torch.inf, 0

    def first_words(self, reading: Snapshot | None) -> Tensor:
        """(rows, tokens, hidden): noise, but for the first row where something was read."""
        shape = (self.settings.rows, sum(self.lengths), self.model.hidden)
        words = torch.randn(shape, generator=self.generator).to(self.model.device)
        words = words * self.size / words.norm(dim=-1, keepdim=True)
        if reading is not None:
            words[0] = self.model.words[reading.ids.to(self.model.device)]
        return words.requires_grad_(True)

    def learn_masks(self) -> None:
        """From now on, masks are moved with the words; the embeddings' start as they were read, if they were."""
        self.masks = [self.first_mask(length) for length in self.lengths]
        if self.kept_first is not None:
            for masks, part in zip(self.masks, self.kept_first.split(self.lengths), strict=True):
                masks["embedding"].data[0] = part.float().to(self.model.device)

    def first_mask(self, tokens: int) -> dict[str, Tensor]:
        drawn = self.settings.first_masks == "drawn"
        found = {}
        for site, shape in self.model.net.sites(tokens).items():
            mask = torch.full((self.settings.rows, *shape), self.kept)
            mask = torch.bernoulli(mask, generator=self.generator) if drawn else mask
            found[site] = mask.to(self.model.device).requires_grad_(True)
        return found

    def run(self, step: int) -> Iterator[Snapshot]:
        self.step = step
        if self.settings.masks and self.kept < 1:
            self.learn_masks()
        for n in range(self.settings.rounds):
            before = float(self.distances.min()), self.best_distance
            yield from self.descend(f"round {n + 1}: words" + (" and masks" if self.masks else ""))
            yield from self.rearrange(f"round {n + 1}: reordering")
            after = float(self.distances.min()), self.best_distance
            if n and all(now > (1 - BETTER) * then for now, then in zip(after, before, strict=True)):
                break
        yield self.picture("nothing improves any more")

    # -- words and masks ---------------------------------------------------------------------------------------------

    def descend(self, stage: str) -> Iterator[Snapshot]:
        settings = self.settings
        moved = [self.words, *self.labels.parameters(), *(mask for masks in self.masks for mask in masks.values())]
        optimizer = torch.optim.AdamW(moved, settings.rate, weight_decay=0.0)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 50, settings.decay)
        for n in range(1, settings.steps + 1):
            distances = self.distance(self.words, self.scaled())
            pull = (self.words.norm(dim=-1).mean(1) - self.size).square()
            objective = (distances + settings.length_pull * pull).sum()
            for parameter, gradient in zip(moved, torch.autograd.grad(objective, moved), strict=True):
                parameter.grad = gradient
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                for masks in self.masks:
                    for mask in masks.values():
                        mask.clamp_(0, 1)
            self.distances = distances.detach()
            yield self.picture(f"{stage}, step {n} of {settings.steps}")

    def distance(self, words: Tensor, masks: list[dict[str, Tensor]], graph: bool = True) -> Tensor:
        words = fixed_ends(self.model, words, self.lengths)
        labels = self.labels.probabilities(len(words))
        return self.matcher.distance(words, labels, self.settings.distance, graph=graph, masks=masks)

    def scaled(self) -> list[dict[str, Tensor]]:
        """The masks as factors: what is kept makes up for what is dropped."""
        return [{site: mask / self.kept for site, mask in masks.items()} for masks in self.masks]

    # -- the discrete stage ------------------------------------------------------------------------------------------

    def rearrange(self, stage: str) -> Iterator[Snapshot]:
        """Reorders the best dummies' words, then tries the recovered words in every place; a better sentence replaces
        the dummies of the row that is worst."""
        row = int(self.distances.argmin())
        decoded: Sentence = tuple(decode(self.model, self.words[row].detach(), self.lengths)[0].tolist())
        beam = sorted((yield from self.scored([decoded, *([self.best] if self.best else [])], row, stage)))
        if self.lengths == (len(decoded),):  # within one sentence, phrases move; between sentences, words do
            moved = [f(beam[0][1], self.settings.orders // 2, self.generator) for f in (reorderings, segments)]
            found = yield from self.scored(moved[0] + moved[1], row, stage)
        else:
            found = yield from self.scored([self.shuffled(beam[0][1]) for _ in range(self.settings.orders)], row, stage)
        beam = sorted([*beam, *found])[: self.settings.beam]
        pool = self.pool()
        for place in self.inner.tolist():
            tried = [(*s[:place], word, *s[place + 1 :]) for _, s in beam for word in pool if word != s[place]]
            found = yield from self.scored(tried, row, stage)
            beam = sorted({*beam, *found})[: self.settings.beam]
        self.best_distance, self.best = beam[0]
        with torch.no_grad():
            worst = int(self.distances.argmax()) if len(self.distances) > 1 else row
            self.words[worst] = self.model.words[torch.tensor(self.best, device=self.model.device)]
            for masks in self.masks:
                for mask in masks.values():
                    mask[worst] = mask[row]

    def pool(self) -> list[int]:
        """The words that the dummies decode to, the surest first."""
        found: dict[int, float] = {}
        for words in self.words.detach():
            ids, sure, _ = decode(self.model, words, self.lengths)
            for word, chance in zip(ids[self.inner].tolist(), sure[self.inner].tolist(), strict=True):
                found[word] = max(chance, found.get(word, 0.0))
        known = [self.best[place] for place in self.inner.tolist()] if self.best else []
        return list(dict.fromkeys([*known, *sorted(found, key=lambda word: -found[word])]))[:POOL]

    def shuffled(self, sentence: Sentence) -> Sentence:
        ids = torch.tensor(sentence)
        inner = self.inner.cpu()
        ids[inner] = ids[inner[torch.randperm(len(inner), generator=self.generator)]]
        return tuple(ids.tolist())

    def scored(
        self, sentences: list[Sentence], row: int, stage: str
    ) -> Generator[Snapshot, None, list[tuple[float, Sentence]]]:
        """Returns each sentence's distance under one row's masks; a snapshot for each batch of them."""
        found: list[tuple[float, Sentence]] = []
        factors = [{site: mask[row : row + 1] for site, mask in masks.items()} for masks in self.scaled()]
        fresh = list(dict.fromkeys(sentences))
        for start in range(0, len(fresh), SCORED):
            part = fresh[start : start + SCORED]
            words = self.model.words[torch.tensor(part, device=self.model.device)]
            found += zip(self.distance(words, factors, graph=False).tolist(), part, strict=True)
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
        kept = torch.cat([masks["embedding"][row] for masks in self.masks]) > 0.5 if self.masks else None
        return snapshot(
            self.model, self.budget, self.step, ids, float(self.distances[row]), stage, words, sure, others,
            labels=self.labels.most_likely(), kept=kept,
        )  # fmt: skip
