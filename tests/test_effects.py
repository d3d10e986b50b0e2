"""In a world where effects do add up, combining them must find what single steps cannot."""

import itertools

import pytest
import torch

from demo.attacker.attacks.sentence_moves import copies, reorderings, segments
from demo.attacker.attacks.word_effects import Effects

WORDS = range(1, 9)
GUESS = (0, 1, 2, 3, 4, 5, 9)


def world(seed=0, width=60):
    """A vector for every word in every place; a sentence's is their sum."""
    table = torch.randn(len(GUESS), 10, width, generator=torch.Generator().manual_seed(seed))
    return lambda sentence: torch.stack([table[place, word] for place, word in enumerate(sentence)]).sum(0)


def around(guess, vector, *kinds):
    inner = range(1, len(guess) - 1)
    found = [(*guess[:place], word, *guess[place + 1 :]) for place in inner for word in WORDS]
    moved = [kind(guess, 1000, torch.Generator()) for kind in kinds]
    neighbours = [s for s in dict.fromkeys(itertools.chain(found, *moved)) if s != guess]
    changes = torch.stack([vector(s) for s in neighbours]) - vector(guess)
    return Effects(torch.tensor(guess), torch.tensor(neighbours), changes)


@pytest.mark.parametrize("truth", [(0, 7, 8, 3, 4, 5, 9), (0, 7, 2, 8, 6, 5, 9), (0, 8, 7, 6, 4, 1, 9)])
def test_changes_are_found_together(truth):
    vector = world()
    found = around(GUESS, vector).together(torch.tensor(GUESS), vector(GUESS) - vector(truth))
    assert truth in found
    assert len(found) == len(set(found))


def test_combining_goes_on_where_it_has_come_to():
    """More changes than are combined at once: the second round keeps what the first has changed."""
    vector, truth, base = world(1), (0, 7, 8, 6, 1, 2, 9), (0, 7, 8, 3, 4, 5, 9)
    effects = around(GUESS, vector)
    found = effects.together(torch.tensor(base), vector(base) - vector(truth))
    assert truth in found
    assert all(sentence[1:3] == base[1:3] for sentence in found)


@pytest.mark.parametrize(
    "truth",
    [
        (0, 2, 3, 4, 5, 8, 9),  # the first word was too many, and the last one missing
        (0, 4, 5, 7, 2, 3, 9),  # a phrase stood elsewhere, and one of its words was wrong
    ],
)
def test_reorderings_are_found_with_another_word(truth):
    vector = world(2)
    effects = around(GUESS, vector, reorderings, segments, copies)
    assert truth not in {tuple(row) for row in effects.neighbours.tolist()}
    assert effects.composed(vector(GUESS) - vector(truth))[0] == truth


def test_one_word_has_no_other_order():
    vector, guess = world(3), (0, 1, 9)
    assert around(guess, vector, reorderings, segments, copies).composed(vector(guess)) == []
