"""Dummies that descend while a mask for every dropout site is moved along with them: the continuous half of GRAB."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from demo.attacker.attacks.base import Snapshot
from demo.attacker.attacks.descent import LabelGuess, fixed_ends
from demo.attacker.leak import Leak
from demo.attacker.matching import Matcher
from demo.settings import setting

Masks = list[dict[str, Tensor]]  # of each sentence, a mask (rows, …) for every dropout site, between dropped and kept


@dataclass(frozen=True)
class Descending:
    """How dummies and masks move; `Grab` has these among its settings."""

    distance: str = setting("cosine", "how far two gradients are apart", choices=("cosine", "l2", "l2+l1"))
    first_masks: str = setting(
        "mean", "where the masks start: at their mean, or drawn (paper)", choices=("mean", "drawn")
    )
    rate: float = setting(0.01, "learning rate of words and masks", 1e-4, 1.0)
    decay: float = setting(0.89, "the learning rate is multiplied by this every 50 steps", 0.1, 1.0)
    alpha: float = setting(0.01, "weight of the L1 term", 0.0, 10.0)
    length_pull: float = setting(1.0, "pull the dummies' mean length towards the words'", 0.0, 10.0)
    rows: int = setting(4, "dummies that descend side by side", 1, 64)


class MaskedDummies:
    """The dummies and their masks, a row for each candidate."""

    def __init__(
        self, settings: Descending, leak: Leak, lengths: tuple[int, ...], seed: int, reading: Snapshot | None
    ) -> None:
        """`reading` is what the first row starts from; the others start from noise."""
        self.descending, self.model, self.lengths, self.kept = settings, leak.model, lengths, 1 - leak.dropout
        self.matcher, self.labels = Matcher(leak, lengths, settings.alpha), LabelGuess(leak)
        self.generator = torch.Generator().manual_seed(seed)
        self.size = float(leak.model.words.norm(dim=1).mean())
        self.words = self.first_words(reading)  # (rows, tokens, hidden)
        self.masks: Masks = []  # none until they are learned
        self.kept_first = reading.kept if reading is not None else None
        self.distances = torch.full((settings.rows,), torch.inf)

    def first_words(self, reading: Snapshot | None) -> Tensor:
        shape = (self.descending.rows, sum(self.lengths), self.model.hidden)
        words = torch.randn(shape, generator=self.generator).to(self.model.device)
        words = words * self.size / words.norm(dim=-1, keepdim=True)
        if reading is not None:
            words[0] = self.model.words[reading.ids.to(self.model.device)]
        return words.requires_grad_(True)

    def learn_masks(self) -> None:
        """From now on, masks are moved with the words; the embeddings' start as they were read, if they were."""
        self.masks = self.fresh_masks(self.descending.rows, self.descending.first_masks == "drawn")
        if self.kept_first is not None:
            for masks, part in zip(self.masks, self.kept_first.split(self.lengths), strict=True):
                if "embedding" in masks:
                    masks["embedding"].data[0] = part.float().to(self.model.device)

    def fresh_masks(self, rows: int, drawn: bool = False) -> Masks:
        """As nobody knows them: all at their mean, or drawn."""
        masks: Masks = []
        for tokens in self.lengths:
            masks.append({})
            for site, shape in self.model.net.sites(tokens).items():
                mask = torch.full((rows, *shape), self.kept)
                mask = torch.bernoulli(mask, generator=self.generator) if drawn else mask
                masks[-1][site] = mask.to(self.model.device).requires_grad_(True)
        return masks

    def steps(self, moved: list[Tensor], words: Tensor, masks: Masks, rate: float, count: int) -> Iterator[Tensor]:
        """Moves some of words and masks towards the leak; each row's distance before every step."""
        optimizer = torch.optim.AdamW(moved, rate, weight_decay=0.0)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 50, self.descending.decay)
        for _ in range(count):
            distances = self.distance(words, masks)
            pull = (words.norm(dim=-1).mean(1) - self.size).square()
            objective = (distances + self.descending.length_pull * pull).sum()
            found = torch.autograd.grad(objective, moved, allow_unused=True)  # nothing leaks of what comes later
            for parameter, gradient in zip(moved, found, strict=True):
                parameter.grad = gradient
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                for mask in every(masks):
                    mask.clamp_(0, 1)
            yield distances.detach()

    def distance(self, words: Tensor, masks: Masks, graph: bool = True) -> Tensor:
        """(rows,): how far the gradients of (rows, tokens, hidden) are from the leak; no masks: all at their mean."""
        words = fixed_ends(self.model, words, self.lengths)
        labels = self.labels.probabilities(len(words))
        # As factors: what is kept makes up for what is dropped.
        factors = [{site: mask / self.kept for site, mask in part.items()} for part in masks]
        return self.matcher.distance(words, labels, self.descending.distance, graph=graph, masks=factors)


def every(masks: Masks) -> list[Tensor]:
    return [mask for part in masks for mask in part.values()]
