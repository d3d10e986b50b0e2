"""A decoder whose words know no places in layer 0: a matrix there tells which words occur, not in which order.

Two things tell the order. The attacked model itself, a language model, says which orders are likely: a beam over the
words that occur. And the gradient: it has to be the one that leaked, so orders are weighed by how far theirs is off,
and changed as long as that helps.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from demo.attacker.attacks.base import Budget, Snapshot, best_certificate, labels_of, snapshot
from demo.attacker.attacks.objectives import COSINE
from demo.attacker.attacks.sentence_moves import Sentence, reorderings
from demo.attacker.certificate import Certificate
from demo.attacker.last_word import LastWord
from demo.attacker.leak import Leak
from demo.attacker.matching import Matcher, one_hot
from demo.attacker.prefix_views import bag_of_words, telling_of_words
from demo.attacker.proposals import Prior
from demo.attacker.turned_order import TurnedOrder
from demo.turns import tick
from demo.victim.causal import Causal

WIDTH = 24  # orders that the beam keeps
FOLLOWERS = 48  # first words that are tried where the matrix does not tell of it
WEIGHED = 8  # orders compared at once
TRIED = 48  # changes of an order that are weighed before the next best is taken
NEAR = 0.1  # a distance below which the last word may be all that is wrong


class WordOrder:
    """Orders of the words that occur, the best of them so far, and how far the gradient of each is off."""

    def __init__(self, leak: Leak, seed: int) -> None:
        bag, piece = bag_of_words(leak), telling_of_words(leak)
        assert bag is not None
        assert piece is not None
        self.leak, self.model, self.piece, self.bag = leak, leak.model, piece, bag
        self.prior, self.matcher = Prior(leak), Matcher(leak)
        self.generator = torch.Generator().manual_seed(seed)
        self.misses_first = piece.part == "query"
        self.targets = 0 if leak.model.net.labels else 1  # words at the end that are only targets
        # Without a length, no word is thought to occur twice.
        self.told = leak.length - self.targets if leak.length else len(bag) + self.misses_first
        self.labels = [one_hot(self.model, (label,), WEIGHED) for label in labels_of(leak)]
        self.known: dict[Sentence, float] = {}
        self.finished: set[Sentence] = set()
        self.best: Sentence = ()
        self.step = 0
        self.proof: tuple[Certificate | None, tuple[int, ...]] = None, ()

    def run(self, budget: Budget) -> Iterator[Snapshot]:
        yield self.picture(budget, (), f"{len(self.bag)} words lie in the span, in whatever order")
        yield from self.read(budget)
        if not self.proven and not budget.over(self.step):
            yield from self.search(budget)

    def read(self, budget: Budget) -> Iterator[Snapshot]:
        """Where places turn what the matrix computes, the gradient tells the order itself."""
        if self.piece.part == "value":
            return
        for order in TurnedOrder(self.leak, self.piece, self.bag).orders():
            self.told = len(order)
            self.best = self.completed(order)
            self.finish(self.best)
            yield self.picture(budget, self.best, "each word's row is a sum over the words before it, or behind it")
            if self.proven or budget.over(self.step):
                return

    def search(self, budget: Budget) -> Iterator[Snapshot]:
        beam: list[tuple[float, Sentence]] = [(0.0, ())]
        for place in range(self.told):
            beam = self.longer(beam)
            yield self.picture(budget, beam[0][1], f"likely orders, word {place + 1} of {self.told}")
            if budget.over(self.step):
                return
        orders = self.all_completed([order for _, order in beam])
        yield from self.weigh(budget, orders, "weighing likely orders by their gradient")
        while not self.proven and not budget.over(self.step):
            said = self.best[: self.told]
            moved = [order[1:-1] for order in reorderings((0, *said, 0), 2 * TRIED, self.generator)]
            fresh = [order for order in self.all_completed(moved) if order not in self.known][:TRIED]
            if not fresh:
                return
            yield from self.weigh(budget, fresh, "changing the order")

    @property
    def proven(self) -> bool:
        certificate = self.proof[0]
        return certificate is not None and certificate.holds

    def longer(self, beam: list[tuple[float, Sentence]]) -> list[tuple[float, Sentence]]:
        """Every order with one more of the words that are left; likeliest first."""
        found = []
        chances = self._chances([order for _, order in beam])
        for (total, order), chance in zip(beam, chances, strict=True):
            for word in self._left(order, chance):
                found.append((total + float(chance[word]), (*order, word)))
        return sorted(found, reverse=True)[:WIDTH]

    def _left(self, order: Sentence, chance: Tensor) -> list[int]:
        """What may come next: each word once, and again as far as the length leaves room."""
        if self.misses_first and not order:
            return chance.topk(FOLLOWERS).indices.tolist()
        said = order[self.misses_first :]
        unsaid = [word for word in self.bag.tolist() if word not in said]
        room = self.told - len(order) - len(unsaid)
        return unsaid if room <= 0 else self.bag.tolist()

    @torch.no_grad()
    def _chances(self, orders: list[Sentence]) -> Tensor:
        """(orders, vocabulary): logarithms, all orders put through together."""
        if not orders[0]:
            return self.prior.chances(())[None]
        tick()
        words = self.model.words[torch.tensor(orders, device=self.model.device)]
        net, opening = self.prior.rough, self.prior.after[()]
        state = net.state(words, self.model.layers, opening)[:, -1].float()  # type: ignore[operator]
        assert isinstance(self.model.net, Causal)
        return self.model.net.logits(state).log_softmax(-1)

    def completed(self, order: Sentence) -> Sentence:
        """With the last word that the model expects, where it is only a target."""
        return self.all_completed([order])[0]

    def all_completed(self, orders: list[Sentence]) -> list[Sentence]:
        if not self.targets:
            return list(dict.fromkeys(orders))
        last = self._chances(list(dict.fromkeys(orders))).argmax(1).tolist()
        return [(*order, word) for order, word in zip(dict.fromkeys(orders), last, strict=True)]

    def weigh(self, budget: Budget, orders: list[Sentence], stage: str) -> Iterator[Snapshot]:
        for first in range(0, len(orders), WEIGHED):
            part = orders[first : first + WEIGHED]
            words = self.model.words[torch.tensor(part, device=self.model.device)]
            each = [self.matcher.distance(words, told[: len(part)], "cosine", graph=False) for told in self.labels]
            self.known |= dict(zip(part, torch.stack(each).amin(0).tolist(), strict=True))
            better = min(part, key=lambda order: self.known[order])
            if not self.best or self.known[better] < self.known[self.best]:
                self.best = better
                self.finish(better)
            yield self.picture(budget, self.best, f"{stage}: {len(self.known):,} weighed")
            if self.proven or budget.over(self.step):
                return

    def finish(self, order: Sentence) -> None:
        """Its last word read off, and the proof, where nothing else seems wrong."""
        if order[: self.told] in self.finished:
            return
        self.finished.add(order[: self.told])
        if not self.targets:
            self.proof = best_certificate(self.leak, torch.tensor(order, device=self.model.device))
            return
        reader = LastWord(self.leak, self.piece)
        for last in reader.explaining(order[:-1], self.prior.chances(order[:-1])):
            self.best = (*order[:-1], last)
            self.known[self.best] = 0.0
            self.proof = best_certificate(self.leak, torch.tensor(self.best, device=self.model.device))

    def picture(self, budget: Budget, order: Sentence, stage: str) -> Snapshot:
        self.step += 1
        ids = self.model.blank(self.told + self.targets)
        known = torch.tensor(order, device=ids.device, dtype=ids.dtype)
        ids[: len(known)] = known
        sure = torch.full((len(ids),), 1.0 if self.proven else 0.5)
        certificate, labels = self.proof
        return snapshot(
            self.model,
            budget,
            self.step,
            ids,
            self.known.get(order, torch.inf),
            stage,
            confidence=sure,
            certificate=certificate,
            labels=labels,
            meaning=COSINE,
        )
