"""The published attacks: dummy word vectors, moved by gradient descent until their gradient matches the leak.

One loop; DLG, TAG and LAMP's cosine are settings of it, as their papers give them. Where we leave a paper:

- All three: the known marks at a sentence's ends are held fixed, and the word table is not matched (`matching`).
- DLG: the paper used LBFGS on images; re-runs on BERT use Adam with rate 0.1, and so do we.
- TAG: it normalises the dummies "to [0, 1]" each step; half of all coordinates are negative, so we set each vector's
  length to the mean length of the model's word vectors instead.
- Cosine: LAMP also scores reorderings with a language model; ours go by the gradient alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from demo.attacker.attacks.base import UNKNOWN_LENGTH, UNKNOWN_LENGTHS, Budget, Snapshot, labels_of, snapshot
from demo.attacker.attacks.objectives import OF_DISTANCE
from demo.attacker.leak import Leak
from demo.attacker.matching import Matcher, one_hot
from demo.attacker.subspace import read_lengths
from demo.settings import setting
from demo.victim.keeping import kept_with_first
from demo.victim.model import Model

BATCH = 16  # candidates scored at once, and between two snapshots
RUNNERS_UP = 3


@dataclass(frozen=True)
class Descent:
    """Gradient descent on dummy word vectors (and on the label, where it is unknown)."""

    about: str = "Moves dummy word vectors until their gradient resembles the leaked one."
    distance: str = setting("l2", "how far two gradients are apart", choices=("l2", "l2+l1", "cosine"))
    optimizer: str = setting("adam", "how the dummies are moved", choices=("adam", "adamw"))
    rate: float = setting(0.1, "learning rate", 1e-4, 1.0)
    decay: float = setting(1.0, "the learning rate is multiplied by this every 50 steps", 0.1, 1.0)
    steps: int = setting(1000, "descent steps, at most", 1, 10_000)
    alpha: float = setting(0.1, "weight of TAG's L1 term at the first layer; it fades with depth", 0.0, 10.0)
    unit_length: bool = setting(False, "keep the dummies at the words' mean length (TAG)")
    length_pull: float = setting(0.0, "pull the dummies' mean length towards the words' (LAMP)", 0.0, 10.0)
    starts: int = setting(1, "random starts, of which the best is taken", 1, 2000)
    orders: int = setting(0, "then random orders of it, of which the best is taken", 0, 2000)
    reorder_every: int = setting(
        0, "after a tenth of the steps, try reorderings every so many steps; 0: never", 0, 1000
    )
    reorderings: int = setting(200, "how many reorderings to try then", 1, 2000)

    def supports(self, leak: Leak) -> str | None:
        return not_matchable(leak)

    def run(self, leak: Leak, budget: Budget, seed: int = 0) -> Iterator[Snapshot]:
        for shot in Walk(self, leak, budget, seed).run():
            yield shot
            if budget.over(shot.step):
                return


def not_matchable(leak: Leak) -> str | None:
    """Why no dummy's gradient can be matched with this leak, or None."""
    if not any(piece.part != "word" for piece in leak.pieces):
        return "only word-embedding rows are exposed, which dummy vectors do not touch: use rows"
    if read_lengths(leak) is None:
        return UNKNOWN_LENGTH if leak.batch == 1 else UNKNOWN_LENGTHS
    return None


class Walk:
    """One descent under way: the dummies, and how many snapshots were taken of them."""

    def __init__(self, settings: Descent, leak: Leak, budget: Budget, seed: int) -> None:
        lengths = read_lengths(leak)
        assert lengths is not None
        self.settings, self.model, self.budget, self.lengths = settings, leak.model, budget, lengths
        self.matcher, self.labels = Matcher(leak, lengths, settings.alpha), LabelGuess(leak)
        self.generator = torch.Generator().manual_seed(seed)
        self.size = float(leak.model.words.norm(dim=1).mean())
        self.words = self.random(1).requires_grad_(True)  # (1, tokens, hidden)
        self.objective, self.step = torch.tensor(torch.inf), 0

    def run(self) -> Iterator[Snapshot]:
        if self.settings.starts > 1:
            yield from self.choose(self.random(self.settings.starts - 1), "random starts")
        if self.settings.orders:
            yield from self.choose(self.reordered(self.settings.orders), "random orders")
        yield from self.descend()

    def descend(self) -> Iterator[Snapshot]:
        settings, moved = self.settings, [self.words, *self.labels.parameters()]
        if settings.optimizer == "adamw":  # as the papers fine-tune
            optimizer: torch.optim.Optimizer = torch.optim.AdamW(moved, settings.rate, eps=1e-6, weight_decay=0.01)
        else:
            optimizer = torch.optim.Adam(moved, settings.rate)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 50, settings.decay)
        for step in range(1, settings.steps + 1):
            objective = self.distance(self.words)[0]
            if settings.length_pull:
                pull = (self.words.norm(dim=-1).mean() - self.size).square()
                objective = objective + settings.length_pull * pull
            # autograd.grad, never .backward(): that would fill .grad of whatever else requires it
            for parameter, gradient in zip(moved, torch.autograd.grad(objective, moved), strict=True):
                parameter.grad = gradient
            optimizer.step()
            schedule.step()
            self.objective = objective.detach()
            if settings.unit_length:
                with torch.no_grad():
                    self.words.mul_(self.size / self.words.norm(dim=-1, keepdim=True))
            yield self.picture(f"descending on {settings.distance}, step {step} of {settings.steps}")
            if settings.reorder_every and step > settings.steps // 10 and step % settings.reorder_every == 0:
                yield from self.choose(self.reordered(settings.reorderings), "reorderings")

    def choose(self, candidates: Tensor, name: str) -> Iterator[Snapshot]:
        """Moves to the best of the candidates, if one is better than the present dummies; a batch at a time."""
        lowest, done = float(self.distance(self.words.detach(), graph=False)), 0
        for part in candidates.split(BATCH):
            scores = self.distance(part, graph=False)
            done += len(part)
            if float(scores.min()) < lowest:
                lowest = float(scores.min())
                with torch.no_grad():
                    self.words.copy_(part[scores.argmin()][None])
            self.objective = torch.tensor(lowest)
            yield self.picture(f"scored {done} of {len(candidates)} {name}")

    def distance(self, words: Tensor, graph: bool = True) -> Tensor:
        labels = self.labels.probabilities(len(words))
        words = fixed_ends(self.model, words, self.lengths)
        return self.matcher.distance(words, labels, self.settings.distance, graph=graph)

    def random(self, rows: int) -> Tensor:
        words = torch.randn((rows, sum(self.lengths), self.model.hidden), generator=self.generator).to(
            self.model.device
        )
        if self.settings.length_pull or self.settings.unit_length:
            words = words * self.size / words.norm(dim=-1, keepdim=True)
        return words

    def reordered(self, rows: int) -> Tensor:
        """The dummies in random orders of the inner tokens, also from sentence to sentence: (rows, tokens, hidden)."""
        inner = inner_places(self.model, self.lengths)
        orders = torch.arange(sum(self.lengths), device=inner.device).repeat(rows, 1)
        for order in orders:
            order[inner] = inner[torch.randperm(len(inner), generator=self.generator).to(inner.device)]
        return self.words[0].detach()[orders]

    @torch.no_grad()
    def picture(self, stage: str) -> Snapshot:
        self.step += 1
        words = fixed_ends(self.model, self.words, self.lengths)[0]
        ids, sure, others = decode(self.model, words, self.lengths)
        return snapshot(
            self.model,
            self.budget,
            self.step,
            ids,
            float(self.objective),
            stage,
            words,
            sure,
            others,
            labels=self.labels.most_likely(),
            meaning=OF_DISTANCE[self.settings.distance],
        )


class LabelGuess:
    """The labels as probabilities: certain where known, else logits that are optimised with the dummies (TAG)."""

    def __init__(self, leak: Leak) -> None:
        self.model = leak.model
        self.known = leak.labels
        self.logits = torch.zeros(1, leak.batch, leak.model.net.labels or 1, device=leak.model.device)
        if self.known is None:
            self.logits[:, :, labels_of(leak)[0]] = 1.0  # breaks the tie; the bias's gradient may tell which
            self.logits.requires_grad_(True)

    def parameters(self) -> list[Tensor]:
        return [] if self.known is not None else [self.logits]

    def probabilities(self, rows: int) -> Tensor:
        if self.known is not None:
            return one_hot(self.model, self.known, rows)
        return self.logits.softmax(-1).expand(rows, -1, -1)

    def most_likely(self) -> tuple[int, ...]:
        return tuple(self.logits[0].argmax(-1).tolist()) if self.known is None else self.known


def inner_places(model: Model, lengths: Sequence[int]) -> Tensor:
    """Where the words of a batch stand: everywhere but at the ends of its sentences."""
    return model.inner_places(*lengths)


def fixed_ends(model: Model, words: Tensor, lengths: Sequence[int]) -> Tensor:
    """Dummies with the known vectors at their sentences' ends; no gradient flows into those."""
    inner = torch.zeros(sum(lengths), 1, dtype=torch.bool, device=words.device)
    inner[model.inner_places(*lengths)] = True
    return torch.where(inner, words, model.words[model.blank(*lengths)])


def decode(model: Model, words: Tensor, lengths: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """(tokens, hidden) -> the cosine-nearest ordinary words, how near they are (0 to 1), and the next few."""
    inner, ids = inner_places(model, lengths), model.blank(*lengths)
    cosines = F.normalize(words[inner], dim=1) @ model.words.T / word_lengths(model)
    nearest = cosines[:, model.ordinary].topk(1 + RUNNERS_UP, dim=1)
    found, sure = ids[:, None].repeat(1, 1 + RUNNERS_UP), torch.ones(len(ids), device=words.device)
    found[inner], sure[inner] = model.ordinary[nearest.indices], nearest.values[:, 0].clamp(0, 1)
    return found[:, 0], sure, found[:, 1:]


@kept_with_first(1)
def word_lengths(model: Model) -> Tensor:
    """Of all word embeddings: (words,). Every step asks for them."""
    return model.words.norm(dim=1)
