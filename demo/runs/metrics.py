"""How much was recovered: the one place where truth meets guess.

The marks at a sentence's ends are known beforehand, so no score counts them; ROUGE *with* them is kept beside it,
because the papers after LAMP report that.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from rouge_score import rouge_scorer, tokenizers
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from demo.victim.model import Model


@dataclass(frozen=True)
class Scores:
    """All between 0 and 1. In place is found too, so `recover_rate` is never below `position_accuracy`."""

    recover_rate: float  # TAG: share of the true tokens that occur in the guess, wherever; a repeated one so many times
    position_accuracy: float  # share of the true tokens that stand in their place
    exact: bool
    rouge1: float
    rouge2: float
    rougeL: float
    rouge1_specials: float
    rouge2_specials: float
    rougeL_specials: float


def score(model: Model, truth: Tensor, guess: Tensor) -> Scores:
    """Compares two id sequences (tokens,), both with the marks at their ends."""
    texts = model.text(truth), model.text(guess)
    plain = _rouge(*texts)
    first, last = (" ".join(model.tokens(torch.tensor(end, dtype=torch.long))) for end in model.ends)
    special = _rouge(*(f"{first} {text} {last}" for text in texts))
    truth, guess = model.inner(truth), model.inner(guess)
    return Scores(_found(truth, guess), _in_place(truth, guess), torch.equal(truth, guess), *plain, *special)


def matched(model: Model, truth: Sequence[Tensor], guess: Sequence[Tensor]) -> list[int]:
    """Which guess belongs to each true sentence, so that the most words are found; a batch has no order of its own."""
    words, guessed = ([model.inner(ids) for ids in sentences] for sentences in (truth, guess))
    likeness = [[_found(a, b) + _in_place(a, b) for b in guessed] for a in words]
    return linear_sum_assignment(likeness, maximize=True)[1].tolist()


def score_each(model: Model, truth: Sequence[Tensor], guess: Sequence[Tensor]) -> tuple[Scores, ...]:
    """Every sentence beside its guess, matched already."""
    return tuple(score(model, a, b) for a, b in zip(truth, guess, strict=True))


def together(model: Model, each: Sequence[Scores], truth: Sequence[Tensor]) -> Scores:
    """The scores of some sentences as one; `exact` if all are.

    TAG's recover rate is a share of true tokens, and TAG has one sentence. Of several, too, each token counts once, in
    its own sentence: as many are found as tiles say so, and what is said in place of all tokens can be set beside it.
    ROUGE is the mean over the sentences, as the papers have it that attack batches.
    """
    tokens = [len(model.inner(ids)) for ids in truth]
    means = {f.name: sum(getattr(one, f.name) for one in each) / len(each) for f in fields(Scores)}
    shares = {
        name: sum(n * getattr(one, name) for n, one in zip(tokens, each, strict=True)) / sum(tokens)
        for name in ("recover_rate", "position_accuracy")
    }
    return Scores(**{**means, **shares, "exact": all(one.exact for one in each)})


def mask_accuracy(kept: Tensor, guessed: Tensor) -> Tensor:
    """(tokens, width) bool each -> (tokens,): the share of coordinates of which it was told right if they were kept."""
    return (kept == guessed).float().mean(1)


def _found(truth: Tensor, guess: Tensor) -> float:
    true, guessed = truth.tolist(), guess.tolist()
    return sum((Counter(true) & Counter(guessed)).values()) / len(true)


def _in_place(truth: Tensor, guess: Tensor) -> float:
    true, guessed = truth.tolist(), guess.tolist()
    return sum(a == b for a, b in zip(true, guessed, strict=False)) / len(true)


class _Words(tokenizers.Tokenizer):
    """rouge-score's own words, which drop all but a-z and digits; a text that has none is split at its blanks."""

    def __init__(self) -> None:
        self.default = tokenizers.DefaultTokenizer(use_stemmer=False)

    def tokenize(self, text: str) -> list[str]:
        return self.default.tokenize(text) or text.split()


_SCORER: Any = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], tokenizer=_Words())


def _rouge(truth: str, guess: str) -> tuple[float, float, float]:
    if truth == guess:  # rouge-score gives 0 for the bigrams of a single word, even the right one
        return 1.0, 1.0, 1.0
    found = _SCORER.score(truth, guess)
    return found["rouge1"].fmeasure, found["rouge2"].fmeasure, found["rougeL"].fmeasure
