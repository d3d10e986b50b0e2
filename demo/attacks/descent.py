"""The published attacks: dummy word vectors, moved by gradient descent until their gradient matches the leak.

One loop; DLG, TAG and LAMP's cosine are settings of it, as their papers give them. Where we leave a paper:

- All three: [CLS] and [SEP] are held fixed (they are known), and the word table is not matched (`demo.matching`).
- DLG: the paper used LBFGS on images; re-runs on BERT use Adam with rate 0.1, and so do we.
- TAG: it normalises the dummies "to [0, 1]" each step; half of BERT's coordinates are negative, so we set each vector's
  length to the mean length of the model's word vectors instead.
- Cosine: LAMP also scores reorderings with a language model; ours go by the gradient alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from demo.attacks.base import UNKNOWN_LENGTH, Budget, Snapshot, labels_of, snapshot
from demo.leak import Leak
from demo.matching import Matcher, one_hot
from demo.models import Model
from demo.subspace import read_length

BATCH = 32  # candidates scored at once
RUNNERS_UP = 3


@dataclass(frozen=True)
class Descent:
    """Gradient descent on dummy word vectors (and on the label, where it is unknown)."""

    distance: str
    optimizer: str = "adam"
    rate: float = 0.1
    decay: float = 1.0  # the rate is multiplied by this every 50 steps
    steps: int = 1000
    alpha: float = 0.1  # weight of the L1 term at the first layer
    unit_length: bool = False  # TAG: dummies keep the words' mean length
    length_pull: float = 0.0  # LAMP: weight of (mean length - the words' mean length)²
    starts: int = 1  # random starts, of which the best is taken
    orders: int = 0  # then random orders of it, of which the best is taken
    reorder_every: int = 0  # every so many steps, after a tenth of them, try…
    reorderings: int = 200  # …this many reorderings

    def supports(self, leak: Leak) -> str | None:
        if not any(piece.part != "word" for piece in leak.pieces):
            return "only word-embedding rows are exposed, which dummy vectors do not touch: use rows"
        if read_length(leak) is None:
            return UNKNOWN_LENGTH
        return None

    def run(self, leak: Leak, budget: Budget, seed: int = 0) -> Iterator[Snapshot]:
        model, length = leak.model, read_length(leak)
        assert length is not None
        generator = torch.Generator().manual_seed(seed)
        matcher = Matcher(leak, self.alpha)
        labels = LabelGuess(leak)
        size = model.words.norm(dim=1).mean()
        words = self._start(matcher, labels, length, float(size), generator)
        words.requires_grad_(True)
        optimizer = self._optimizer([words, *labels.parameters()])
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 50, self.decay)
        for step in range(1, self.steps + 1):
            objective = matcher.distance(fixed_ends(model, words), labels.probabilities(1), self.distance)[0]
            if self.length_pull:
                objective = objective + self.length_pull * (words.norm(dim=-1).mean() - size).square()
            _descend(optimizer, objective, [words, *labels.parameters()])
            schedule.step()
            with torch.no_grad():
                if self.unit_length:
                    words.mul_(size / words.norm(dim=-1, keepdim=True))
                if self.reorder_every and step > self.steps // 10 and step % self.reorder_every == 0:
                    words.copy_(self._reordered(matcher, labels, words, self.reorderings, generator))
            yield self._picture(model, budget, step, fixed_ends(model, words)[0], objective, labels)
            if budget.over(step):
                return

    def _start(
        self, matcher: Matcher, labels: "LabelGuess", length: int, size: float, generator: torch.Generator
    ) -> Tensor:
        shape = (self.starts, length, matcher.model.hidden)
        words = torch.randn(shape, generator=generator).to(matcher.model.device)
        if self.length_pull or self.unit_length:
            words = words * size / words.norm(dim=-1, keepdim=True)
        if self.starts > 1:
            words = words[self._scores(matcher, labels, words).argmin()][None]
        return self._reordered(matcher, labels, words, self.orders, generator) if self.orders else words

    def _reordered(self, matcher, labels, words: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """The best of random orders of the inner tokens and the present one."""
        inner = words.shape[1] - 2
        orders = torch.stack([torch.randperm(inner, generator=generator) for _ in range(count)]) + 1
        orders = F.pad(F.pad(orders, (1, 0), value=0), (0, 1), value=inner + 1).to(words.device)
        candidates = torch.cat([words, words[0][orders]])
        return candidates[self._scores(matcher, labels, candidates).argmin()][None]

    def _scores(self, matcher: Matcher, labels: "LabelGuess", words: Tensor) -> Tensor:
        return torch.cat([
            matcher.distance(part, labels.probabilities(len(part)), self.distance, graph=False)
            for part in fixed_ends(matcher.model, words.detach()).split(BATCH)
        ]).detach()  # fmt: skip

    def _optimizer(self, parameters: list[Tensor]) -> torch.optim.Optimizer:
        if self.optimizer == "adamw":  # BertAdam
            return torch.optim.AdamW(parameters, self.rate, eps=1e-6, weight_decay=0.01)
        return torch.optim.Adam(parameters, self.rate)

    @torch.no_grad()
    def _picture(self, model: Model, budget: Budget, step: int, words: Tensor, objective: Tensor, labels) -> Snapshot:
        ids, sure, others = decode(model, words)
        stage = f"descending on {self.distance}"
        return snapshot(
            model, budget, step, ids, float(objective), stage, words, sure, others, label=labels.most_likely()
        )


class LabelGuess:
    """The label as probabilities: certain where it is known, else logits that are optimised with the dummies (TAG)."""

    def __init__(self, leak: Leak) -> None:
        self.model = leak.model
        self.known = leak.label
        self.logits = torch.zeros(1, leak.model.net.classifier.out_features, device=leak.model.device)
        if self.known is None:
            self.logits[0, labels_of(leak)[0]] = 1.0  # breaks the tie; the bias's gradient may tell which
            self.logits.requires_grad_(True)

    def parameters(self) -> list[Tensor]:
        return [] if self.known is not None else [self.logits]

    def probabilities(self, rows: int) -> Tensor:
        if self.known is not None:
            return one_hot(self.model, self.known, rows)
        return self.logits.softmax(1).expand(rows, -1)

    def most_likely(self) -> int:
        return int(self.logits.argmax()) if self.known is None else self.known


def fixed_ends(model: Model, words: Tensor) -> Tensor:
    """Dummies with the known vectors of [CLS] and [SEP] at their ends; no gradient flows into the ends."""
    ends = model.words[list(model.first_last)].expand(len(words), 2, -1)
    return torch.cat([ends[:, :1], words[:, 1:-1], ends[:, 1:]], dim=1)


def decode(model: Model, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(tokens, hidden) -> the cosine-nearest ordinary words, how near they are (0 to 1), and the next few."""
    table = F.normalize(model.words[model.ordinary], dim=1)
    nearest = (F.normalize(words[1:-1], dim=1) @ table.T).topk(1 + RUNNERS_UP, dim=1)
    ids, sure = model.ordinary[nearest.indices], nearest.values[:, 0].clamp(0, 1)
    first, last = (torch.full((1, 1 + RUNNERS_UP), end, device=words.device) for end in model.first_last)
    ids = torch.cat([first, ids, last])
    return ids[:, 0], F.pad(sure, (1, 1), value=1.0), ids[:, 1:]


def _descend(optimizer: torch.optim.Optimizer, objective: Tensor, parameters: list[Tensor]) -> None:
    # autograd.grad, never .backward(): that would fill .grad of whatever else requires it
    for parameter, gradient in zip(parameters, torch.autograd.grad(objective, parameters), strict=True):
        parameter.grad = gradient
    optimizer.step()
