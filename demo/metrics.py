"""How much was recovered: the one place where truth meets guess.

[CLS] and [SEP] are known beforehand, so no score counts them; ROUGE *with* them is kept beside it, because the papers
after LAMP report that.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from rouge_score import rouge_scorer, tokenizers
from torch import Tensor

from demo.models import Model


@dataclass(frozen=True)
class Scores:
    """All between 0 and 1."""

    recover_rate: float  # TAG: share of the true tokens that occur in the guess, wherever
    position_accuracy: float  # share of the true tokens that stand in their place
    exact: bool
    rouge1: float
    rouge2: float
    rougeL: float
    rouge1_specials: float
    rouge2_specials: float
    rougeL_specials: float


def score(model: Model, truth: Tensor, guess: Tensor) -> Scores:
    """Compares two id sequences (tokens,), both with [CLS] and [SEP] at their ends."""
    true, guessed = truth[1:-1].tolist(), guess[1:-1].tolist()
    found = sum((Counter(true) & Counter(guessed)).values())
    in_place = sum(a == b for a, b in zip(true, guessed, strict=False))
    texts = model.text(truth), model.text(guess)
    plain = _rouge(*texts)
    special = _rouge(*(f"[CLS] {text} [SEP]" for text in texts))
    return Scores(found / len(true), in_place / len(true), true == guessed, *plain, *special)


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
