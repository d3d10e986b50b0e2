"""Search on a decoder: walks the tree of prefixes, from the first word on, and takes those that lie in the leaked span.

A `PrefixView` of the leak goes in, snapshots come out: one for each round of words that was tried. The last word of a
sentence is only a target, never an input: the gradient is linear in its output vector, which ranks all words at once.
"""

from collections.abc import Generator, Iterator

import torch
from torch import Tensor

from demo.attacker.attacks.base import Budget, Candidates, Snapshot, best_certificate, snapshot
from demo.attacker.attacks.objectives import WORD
from demo.attacker.certificate import Certificate
from demo.attacker.leak import Leak
from demo.attacker.prefixes import Path, PrefixJudge, PrefixView, bag_of_words, prefix_length
from demo.attacker.proposals import Prior, Proposals
from demo.victim.gradients import gradient_of

SHOWN = 60  # nearest words that a snapshot tells of
LAST = 6  # words that are proven or disproven as the last one, of each ranking
FIRSTS, SECONDS = 32, 64  # first and second words that are tried together where the first one leaves no trace
PAIRS = 8  # best pairs that are varied in each round
RUNNERS_UP = 3


class PrefixSearch:
    """One sentence, word by word."""

    def __init__(self, leak: Leak, view: PrefixView, seed: int) -> None:
        self.leak, self.view, self.seed = leak, view, seed
        self.model, self.length = leak.model, prefix_length(leak, view)
        self.judge, self.prior, self.bag = PrefixJudge(leak, view), Prior(leak), bag_of_words(leak)
        self.step, self.worst = 0, 0.0
        self.sure = torch.zeros(self.length)
        self.others = torch.full((self.length, RUNNERS_UP), self.model.nothing)
        self.certificate: Certificate | None = None
        self.labels: tuple[int, ...] = ()

    def run(self, budget: Budget, step: int) -> Iterator[Snapshot]:
        self.step = step
        path = self.judge.start()
        yield self.picture(budget, path, f"walking the tree of prefixes through {self.view.piece.name}")
        if self.view.misses_first:
            path = yield from self.first_pair(budget, path)
        told = self.length - (0 if self.model.net.labels else 1)
        while len(path.ids) < told:
            longer = yield from self.longer(budget, path)
            if longer is None:
                return
            path = longer
        yield from self.finished(budget, path)

    def longer(self, budget: Budget, path: Path) -> Generator[Snapshot, None, Path | None]:
        """The path with the next word, once one lies in the span; None where none does, or time is up."""
        place, expected = len(path.ids), self.prior.chances(path.ids)
        proposals = Proposals(self.model.words, self.view.basis, expected, self.bag, self.seed + place)
        nearest: dict[int, float] = {}
        tried = 0
        while True:
            ids = proposals.next()
            if not len(ids):
                if proposals.rounds == 1:
                    continue
                return None
            vectors, outside = self.judge.look(path, ids)
            proposals.learn(ids, vectors)
            tried += len(ids)
            nearest |= dict(zip(ids.tolist(), outside.tolist(), strict=True))
            nearest = dict(sorted(nearest.items(), key=lambda pair: pair[1])[:SHOWN])
            passing = self.judge.passing(path, ids, outside)
            if passing:
                path = self.judge.extended(path, passing[0])
                self._note(place, passing[0], nearest, expected)
            stage = self._stage(path, place, tried, expected, bool(passing))
            yield self.picture(budget, path, stage, self._candidates(place, nearest))
            if passing:
                return path
            if budget.over(self.step):
                return None

    def first_pair(self, budget: Budget, start: Path) -> Generator[Snapshot, None, Path]:
        """The first two words at once: a query matrix knows nothing of the first, but what the second reads of it."""
        opening = self.prior.chances(()).argsort(descending=True)
        seen: dict[tuple[int, int], float] = {}
        firsts = opening[:FIRSTS].tolist()
        wanted = [(first, second) for first in firsts for second in self._expected(first, 0, SECONDS)]
        turn = 0
        while True:
            new = [pair for pair in dict.fromkeys(wanted) if pair not in seen]
            outside = self.judge.pairs_outside([a for a, _ in new], [b for _, b in new])
            seen |= dict(zip(new, outside.tolist(), strict=True))
            best = sorted(seen, key=lambda pair: seen[pair])[:PAIRS]
            for first, second in best:
                prefix = Path((first,), self.judge.net.settled(self.model.words[[first]][None]), start.taken)
                ids = torch.tensor([second], device=self.model.device)
                if self.judge.passing(prefix, ids, self.judge.outside(prefix, ids)):
                    path = self.judge.extended(start, first, second)
                    self.sure[:2] = 1
                    yield self.picture(budget, path, "the first two words together lie in the span")
                    return path
            yield self.picture(budget, start, f"trying the first two words together: {len(seen):,} pairs")
            if budget.over(self.step):
                return start
            turn += 1
            reach = FIRSTS * 4**turn
            wanted = []
            for first, second in best:
                wanted += [(other, second) for other in opening[:reach].tolist()]
                wanted += [(first, other) for other in self._expected(first, 0, reach)]

    def finished(self, budget: Budget, path: Path) -> Iterator[Snapshot]:
        """The proof; and before it the last word, where it is only a target."""
        if self.model.net.labels:
            self._prove(path.ids)
            yield self.picture(budget, path, "every word lies in the span")
            return
        for last in self._last_words(path.ids):
            self._prove((*path.ids, last))
            proven = self.certificate is not None and self.certificate.holds
            self.sure[-1] = 1.0 if proven else 0.1
            longer = Path((*path.ids, last), None, path.taken)
            yield self.picture(
                budget, longer, "the last word is only a target: trying those that the gradient asks for"
            )
            if proven or budget.over(self.step):
                return

    def picture(self, budget: Budget, path: Path, stage: str, candidates: Candidates | None = None) -> Snapshot:
        self.step += 1
        ids = self.model.blank(self.length)
        known = torch.tensor(path.ids[: self.length], device=ids.device, dtype=ids.dtype)
        ids[: len(known)] = known
        return snapshot(
            self.model,
            budget,
            self.step,
            ids,
            self.worst,
            stage,
            confidence=self.sure,
            runners_up=self.others,
            certificate=self.certificate,
            labels=self.labels,
            candidates=candidates,
            meaning=WORD,
        )

    def _prove(self, ids: tuple[int, ...]) -> None:
        guess = torch.tensor(ids, device=self.model.device)
        self.certificate, self.labels = best_certificate(self.leak, guess)

    def _last_words(self, ids: tuple[int, ...]) -> list[int]:
        """Likeliest first. G = G₀ − ∇(w · h), with w the last word's output vector and h the state before it."""
        expected = self.prior.chances(ids)
        filler = int(expected.argmax())
        guess = torch.tensor([*ids, filler], device=self.model.device)
        pull = self._pull(guess, filler)
        table = self.judge.net.output_table
        scores = (table - table[filler]) @ pull / (table - table[filler]).norm(dim=1).clamp_min(1e-6)
        scores[expected.isinf()] = -torch.inf
        asked, likely = scores.topk(4 * LAST).indices.tolist(), expected.topk(LAST).indices.tolist()
        turns = [word for both in zip(asked[:LAST], likely, strict=True) for word in both]
        return list(dict.fromkeys([*turns, *asked]))

    def _pull(self, guess: Tensor, filler: int) -> Tensor:
        """⟨what is left of the leak, ∇(w · h)⟩ as a vector beside w: the derivative of h along what is left."""
        net, piece = self.judge.net.trained, self.view.piece
        left = gradient_of(self.model, [guess], [0], [piece])[piece.name] - self.leak.gradient[piece.name]
        weight = getattr(net.parts()[piece.module], piece.kind)
        with torch.enable_grad():
            state = net.inputs(net.embed(net.words[guess[:-1]][None]), len(net.layers))[0, -1]
            along = torch.zeros(net.width, device=guess.device, requires_grad=True)
            product = torch.autograd.grad((net.norm(state) * along).sum(), [weight], create_graph=True)[0]  # type: ignore[operator]
            return torch.autograd.grad((product * left).sum(), [along])[0]

    def _expected(self, first: int, start: int, many: int) -> list[int]:
        return self.prior.chances((first,)).topk(start + many).indices[start:].tolist()

    def _note(self, place: int, word: int, nearest: dict[int, float], expected: Tensor) -> None:
        self.worst = max(self.worst, nearest.get(word, 0.0))
        self.sure[place] = 1.0
        others = [other for other in nearest if other != word][:RUNNERS_UP]
        self.others[place, : len(others)] = torch.tensor(others, dtype=self.others.dtype)

    def _candidates(self, place: int, nearest: dict[int, float]) -> Candidates:
        return Candidates(place, torch.tensor(list(nearest)), torch.tensor(list(nearest.values())).clamp_min(0))

    def _stage(self, path: Path, place: int, tried: int, expected: Tensor, found: bool) -> str:
        if not found:
            return f"word {place + 1} of {self.length}: {tried:,} words tried, none lies in the span yet"
        chance = float(expected[path.ids[-1]].exp())
        return (
            f"word {place + 1} of {self.length}: 1 of {tried:,} tried lies in the span; the model gave it {chance:.1%}"
        )
