"""Which words to try next after a prefix: those that the attacked model itself expects, and those that a lens likes.

The lens is fitted in this very context: of the words tried so far, what sticks out of the span is a nearly linear
function of their word vectors, so that it can be guessed for all the others.
"""

import torch
from torch import Tensor

from demo.attacker.leak import Leak
from demo.victim.causal import Causal, Settled

OPENING = "user\n"  # what a chat model expects a person's words after; others are no worse off with it
RIDGE = 1e-2
SKETCH = 64  # random directions in which sticking out is guessed
FIRST, SECOND = 48, 256  # words tried before anything else, and before a lens is fitted
AT_RANDOM = 128  # words that the lens learns from besides
LATER = 512  # words tried in the first round with a lens; twice as many in each that follows
RESERVE = 10.0  # ranks below this are as good as one another


class Prior:
    """The model's own expectation of the next word, after an opening and the words so far."""

    def __init__(self, leak: Leak) -> None:
        net, tokenizer = leak.model.net, leak.model.tokenizer
        assert isinstance(net, Causal)
        self.net, self.ordinary = net, leak.model.ordinary
        marks = [mark for mark in (tokenizer.bos_token_id, tokenizer.eos_token_id) if mark is not None][:1]
        opening = tokenizer(OPENING, add_special_tokens=False).input_ids
        self.opening = torch.tensor([*marks, *opening], device=leak.model.device)
        self.after: dict[tuple[int, ...], Settled] = {}

    @torch.no_grad()
    def chances(self, ids: tuple[int, ...]) -> Tensor:
        """(vocabulary,): the logarithm of each word's chance after these."""
        words = torch.cat([self.opening, self.opening.new_tensor(ids)])
        before = self.after.get(ids[:-1])
        new = words[before.tokens :] if before is not None else words
        vectors = self.net.words[new][None]
        state = self.net.state(vectors, len(self.net.layers), before)
        self.after[ids] = self.net.settled(vectors, before)
        chances = torch.full((len(self.net.words),), -torch.inf, device=new.device)
        logits = self.net.logits(state[:, -1])[0]
        chances[self.ordinary] = logits[self.ordinary].log_softmax(0)
        return chances


class Proposals:
    """Words in rounds: likely ones first, then what the lens makes of all that were tried."""

    def __init__(self, words: Tensor, basis: Tensor, chances: Tensor, bag: Tensor | None, seed: int) -> None:
        self.words, self.basis, self.chances, self.bag = words, basis, chances, bag
        self.generator = torch.Generator().manual_seed(seed)
        self.sketch = torch.randn(len(basis), SKETCH, generator=self.generator).to(words.device) / SKETCH**0.5
        self.tried: list[Tensor] = []
        self.sticking: list[Tensor] = []
        self.open = chances.isfinite()
        self.rounds = 0

    def next(self) -> Tensor:
        """The ids to try now; none where all were tried."""
        self.rounds += 1
        if self.rounds == 1:
            return self._taken(self.bag if self.bag is not None else self._likeliest(FIRST))
        if self.rounds == 2:
            return self._taken(torch.cat([self._likeliest(SECOND), self._at_random()]).unique())
        many = LATER * 2 ** (self.rounds - 3)
        ranks = self._rank(self._guessed()) + self._rank(-self.chances)
        ranks[~self.open] = torch.inf
        return self._taken(ranks.topk(min(many, int(self.open.sum())), largest=False).indices)

    def learn(self, ids: Tensor, vectors: Tensor) -> None:
        """What entered the matrix of words that were tried."""
        vectors = vectors / vectors.norm(dim=1, keepdim=True).clamp_min(1e-30)
        left = vectors - (vectors @ self.basis) @ self.basis.T
        self.tried.append(ids)
        self.sticking.append(left @ self.sketch)

    def _taken(self, ids: Tensor) -> Tensor:
        ids = ids[self.open[ids]]
        self.open[ids] = False
        return ids

    def _likeliest(self, many: int) -> Tensor:
        chances = self.chances.masked_fill(~self.open, -torch.inf)
        return chances.topk(min(many, int(self.open.sum()))).indices

    def _at_random(self) -> Tensor:
        left = self.open.nonzero()[:, 0]
        return left[torch.randperm(len(left), generator=self.generator)[:AT_RANDOM].to(left.device)]

    def _guessed(self) -> Tensor:
        """How far each word of the vocabulary would stick out: (vocabulary,)."""
        inputs, outputs = self.words[torch.cat(self.tried)], torch.cat(self.sticking)
        middle, usual = inputs.mean(0), outputs.mean(0)
        inputs = inputs - middle
        gram = inputs.T @ inputs
        ridge = RIDGE * gram.diagonal().mean() * torch.eye(len(gram), device=gram.device)
        slope = torch.linalg.solve(gram + ridge, inputs.T @ (outputs - usual))
        return ((self.words - middle) @ slope + usual).norm(dim=1)

    def _rank(self, scores: Tensor) -> Tensor:
        """The logarithm of each one's rank, smallest first."""
        order = scores.masked_fill(~self.open, torch.inf).argsort()
        ranks = torch.empty_like(scores)
        ranks[order] = torch.arange(len(scores), device=scores.device, dtype=scores.dtype)
        return (ranks + RESERVE).log()
