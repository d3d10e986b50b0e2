"""Which words to try next after a prefix: those that the attacked model itself expects, and those that a lens likes.

The lens is fitted in this very context: of the words tried so far, what sticks out of the span is a nearly linear
function of what a few layers make of each word alone, so that it can be guessed for all the others.
"""

import torch
from torch import Tensor

from demo.attacker.leak import Leak
from demo.attacker.prefixes import Look
from demo.turns import ticking
from demo.victim.causal import Causal
from demo.victim.keeping import kept_with_first
from demo.victim.rough import rough
from demo.victim.settled import Settled

# Sentences of several kinds and spellings, after which the model expects one more.
OPENING = (
    "My sister plays the cello.\nthe film is a touching , well-acted drama .\n"
    "He sold his old bicycle yesterday, and Mary bought it.\nrain fell on the tents all night\n"
    "Please call me at 555-0199 about the invoice.\nWhat did she give to whom?\n"
)
RIDGE = 0.1
SKETCH = 64  # random directions in which sticking out is guessed
HALF, LEAST, FIRST = 0.5, 6, 48  # of the chance is covered by the words tried before anything else; so few to so many
SECOND, AT_RANDOM = 256, 128  # likely and other words that the lens learns from
LATER = 512  # words tried in the first round with a lens; twice as many in each that follows
POOL = 4096  # likeliest words among which the first such round chooses; four times as many in each that follows
ALONE = 4  # layers that a word is put through alone
REMEMBERED = 32  # prefixes whose keys and values are kept
RESERVE = 10.0  # ranks below this are as good as one another
TRUST = 0.5  # in the model's chances beside the lens's ranks, which fall off less steeply


class Prior:
    """The model's own expectation of the next word, after an opening and the words so far."""

    def __init__(self, leak: Leak) -> None:
        net, tokenizer = leak.model.net, leak.model.tokenizer
        assert isinstance(net, Causal)
        self.net, self.rough, self.ordinary = net, rough(net), leak.model.ordinary
        marks = [mark for mark in (tokenizer.bos_token_id, tokenizer.eos_token_id) if mark is not None][:1]
        opening = tokenizer(OPENING, add_special_tokens=False).input_ids
        self.opening = torch.tensor([*marks, *opening], device=leak.model.device)
        self.after: dict[tuple[int, ...], Settled] = {}
        self.chances(())

    @torch.no_grad()
    def chances(self, ids: tuple[int, ...]) -> Tensor:
        """(vocabulary,): the logarithm of each word's chance after these."""
        words = torch.cat([self.opening, self.opening.new_tensor(ids)])
        before = self.after.get(ids[:-1], self.after.get(()))
        before = before if ids else None
        new = words[before.tokens :] if before is not None else words
        self.after[ids], states = self.rough.settling(self.net.words[new][None], before)  # type: ignore[operator]
        if len(self.after) > REMEMBERED:
            del self.after[list(self.after)[1]]  # the oldest but for the opening
        return self._told(states[-1][:, -1])[0]

    @torch.no_grad()
    def chances_after(self, words: Tensor) -> Tensor:
        """The same after each of these first words, together: (words, vocabulary)."""
        state = self.rough.state(self.net.words[words][:, None], len(self.net.layers), self.after[()])  # type: ignore[operator]
        return self._told(state[:, -1])

    def _told(self, states: Tensor) -> Tensor:
        logits = self.net.logits(states.float())
        chances = torch.full_like(logits, -torch.inf)
        chances[:, self.ordinary] = logits[:, self.ordinary].log_softmax(1)
        return chances


class Alone:
    """What a few layers make of each word by itself, after the opening; put through when it is asked for, and kept."""

    def __init__(self, prior: Prior, layers: int) -> None:
        self.words, self.net, self.layers, self.opening = prior.net.words, prior.rough, layers, prior.after[()]
        self.states, self.known = _table(prior.net, layers)

    @torch.no_grad()
    def of(self, ids: Tensor) -> Tensor:
        if not self.layers:
            return self.words[ids]
        for some in ticking(ids[~self.known[ids]].split(LATER)):
            self.states[some] = self.net.state(self.words[some][:, None], self.layers, self.opening)[:, 0].float()  # type: ignore[operator]
            self.known[some] = True
        return self.states[ids]


@kept_with_first(1)
def _table(net: Causal, layers: int) -> tuple[Tensor, Tensor]:
    """The states of all words, and which of them are there."""
    shape = net.words.shape if layers else (0, 0)
    return net.words.new_empty(shape), torch.zeros(len(net.words), dtype=torch.bool, device=net.words.device)


class Proposals:
    """Words in rounds: likely ones first, then what the lens makes of all that were tried."""

    def __init__(self, alone: Alone, basis: Tensor, chances: Tensor, bag: Tensor | None, seed: int) -> None:
        self.alone, self.basis, self.chances, self.bag = alone, basis, chances, bag
        self.generator = torch.Generator().manual_seed(seed)
        self.sketch = torch.randn(len(basis), SKETCH, generator=self.generator).to(basis.device) / SKETCH**0.5
        self.tried: list[Tensor] = []
        self.sticking: list[Tensor] = []
        self.open = chances.isfinite()
        self.rounds = 0

    def next(self) -> Tensor:
        """The ids to try now; none where all were tried."""
        self.rounds += 1
        if self.rounds == 1:
            return self._taken(self.bag if self.bag is not None else self._likeliest(self._first()))
        if self.rounds == 2:
            return self._taken(torch.cat([self._likeliest(SECOND), self._at_random()]).unique())
        pool = self._likeliest(POOL * 4 ** (self.rounds - 3))
        score = TRUST * self.chances[pool] - (_ranks(self._guessed(pool)) + RESERVE).log()
        many = LATER * 2 ** (self.rounds - 3)
        return self._taken(pool[score.topk(min(many, len(pool))).indices])

    def learn(self, look: Look) -> None:
        """What entered the matrix of words that were tried."""
        vectors = look.vectors / look.vectors.norm(dim=1, keepdim=True).clamp_min(1e-30)
        left = vectors - (vectors @ self.basis) @ self.basis.T
        self.tried.append(look.ids)
        self.sticking.append(left @ self.sketch)

    def _first(self) -> int:
        """How many words cover half of the chance."""
        largest = self.chances.topk(FIRST).values.exp().cumsum(0)
        return max(LEAST, int((largest < HALF).sum()) + 1)

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

    def _guessed(self, pool: Tensor) -> Tensor:
        """How far each of these words would stick out."""
        inputs, outputs = self.alone.of(torch.cat(self.tried)), torch.cat(self.sticking)
        middle, usual = inputs.mean(0), outputs.mean(0)
        inputs = inputs - middle
        gram = inputs @ inputs.T  # as many as words were tried; where these are many, as many as numbers of a state
        if len(gram) > inputs.shape[1]:
            gram = inputs.T @ inputs
            slope = torch.linalg.solve(_ridged(gram, len(inputs)), inputs.T @ (outputs - usual))
        else:
            slope = inputs.T @ torch.linalg.solve(_ridged(gram, len(inputs)), outputs - usual)
        return ((self.alone.of(pool) - middle) @ slope + usual).norm(dim=1)


def _ridged(gram: Tensor, words: int) -> Tensor:
    """With the same weight on the diagonal whichever way round it was multiplied."""
    return gram + RIDGE * gram.diagonal().sum() / words * torch.eye(len(gram), device=gram.device)


def _ranks(scores: Tensor) -> Tensor:
    """Each one's rank, smallest first."""
    ranks = torch.empty_like(scores)
    ranks[scores.argsort()] = torch.arange(len(scores), device=scores.device, dtype=scores.dtype)
    return ranks
