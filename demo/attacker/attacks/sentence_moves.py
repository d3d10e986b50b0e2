"""Moves from one whole guess to another, and what to say of them."""

import itertools
from collections.abc import Iterable

import torch

from demo.turns import tick
from demo.victim.model import Model

Sentence = tuple[int, ...]
CHUNK = 32  # sentences scored between two snapshots: as fast per sentence as larger ones, and ten a second to watch
RUNNERS_UP = 3
SOFTNESS = 0.05  # turns a judge's ranks into chances: to draw words by, and as confidences on screen


def reorderings(sentence: Sentence, limit: int, generator: torch.Generator) -> list[Sentence]:
    """Every exchange of two tokens, and every token taken out and put back elsewhere; some of them if too many."""
    inner, found = range(1, len(sentence) - 1), []
    for one, other in itertools.combinations(inner, 2):
        exchanged = list(sentence)
        exchanged[one], exchanged[other] = exchanged[other], exchanged[one]
        found.append(tuple(exchanged))
    for source, target in itertools.permutations(inner, 2):
        moved = list(sentence)
        moved.insert(target, moved.pop(source))
        found.append(tuple(moved))
    return some(found, limit, generator)


def copies(sentence: Sentence, limit: int, generator: torch.Generator) -> list[Sentence]:
    """Each word in each other place, too: combined, they make any order; some of them if too many."""
    pairs = itertools.permutations(range(1, len(sentence) - 1), 2)
    found = [(*sentence[:target], sentence[source], *sentence[target + 1 :]) for source, target in pairs]
    return some(found, limit, generator)


def replacements(sentence: Sentence, words: list[int]) -> list[Sentence]:
    """Every token taken out, and each of some words put in elsewhere: what is wrong by a missing article."""
    found = []
    for source, target in itertools.permutations(range(1, len(sentence) - 1), 2):
        tick()
        rest = [*sentence[:source], *sentence[source + 1 :]]
        found += [(*rest[:target], word, *rest[target:]) for word in words]
    return found


def segments(sentence: Sentence, limit: int, generator: torch.Generator) -> list[Sentence]:
    """Every stretch of two tokens or more, taken out and put back elsewhere; some of them if too many."""
    found, end = [], len(sentence) - 1
    for start, stop in itertools.combinations(range(1, end + 1), 2):
        tick()
        rest, stretch = sentence[:start] + sentence[stop:], sentence[start:stop]
        if len(stretch) > 1:
            found += [rest[:at] + stretch + rest[at:] for at in range(1, len(rest)) if at != start]
    return some(found, limit, generator)


def shorter(sentence: Sentence) -> list[Sentence]:
    """Every sentence with one token less."""
    return [sentence[:place] + sentence[place + 1 :] for place in range(1, len(sentence) - 1)]


def longer(sentence: Sentence, words: list[int]) -> list[Sentence]:
    """Every sentence with one of these words more."""
    return [(*sentence[:place], word, *sentence[place:]) for place in range(1, len(sentence)) for word in words]


def combined(sentence: Sentence, better: Iterable[Sentence]) -> list[Sentence]:
    """Changes that help, the best first, made together one after the other as far as they touch other places."""
    merged, touched, found = list(sentence), set[int](), []
    for neighbour in better:
        places = {place for place, word in enumerate(neighbour) if word != sentence[place]}
        if not places & touched:
            touched |= places
            for place in places:
                merged[place] = neighbour[place]
            found.append(tuple(merged))
    return found


def kicked(best: Sentence, drawn: list[int], generator: torch.Generator) -> Sentence:
    """A guess with some words replaced by those drawn for each inner place, and a random stretch moved elsewhere."""
    share = 0.2 + 0.8 * float(torch.rand(1, generator=generator))
    renewed = (torch.rand(len(drawn), generator=generator) < share).tolist()
    inner = [new if fresh else old for new, old, fresh in zip(drawn, best[1:-1], renewed, strict=True)]
    start, end, target = sorted(torch.randint(len(inner) + 1, (3,), generator=generator).tolist())
    inner = inner[:start] + inner[end:target] + inner[start:end] + inner[target:]
    return (best[0], *inner, best[-1])


def some(found: list[Sentence], limit: int, generator: torch.Generator) -> list[Sentence]:
    if len(found) <= limit:
        return found
    return [found[i] for i in torch.randperm(len(found), generator=generator)[:limit].tolist()]


def change(model: Model, old: Sentence, new: Sentence) -> str:
    """What a move did, for people."""
    if len(old) != len(new):
        return f"better with {len(new) - 2} words"
    places = [place for place, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    words = model.tokens(torch.tensor([new[place] for place in places]))
    if sorted(old) == sorted(new):
        return f"another order is better: {' '.join(words)} at places {places[0]} to {places[-1]}"
    shown = ", ".join(f"{word} at {place}" for word, place in zip(words, places, strict=True))
    return f"better: {shown}"
