"""Which walk fits what leaks of a decoder: along one sentence, along those of a batch, or over the orders of its words.

cannot_be_walked(leak)  # the reason, or None
walk(leak, budget, seed)
"""

from collections.abc import Iterator

from demo.attacker.attacks.base import Budget, Snapshot
from demo.attacker.attacks.prefix_batch import PrefixBatch
from demo.attacker.attacks.prefix_noise import NoisySearch, loud_views
from demo.attacker.attacks.prefix_search import PrefixSearch
from demo.attacker.attacks.word_order import WordOrder
from demo.attacker.leak import Leak
from demo.attacker.prefix_views import bag_of_words, first_view, prefix_length, telling_of_words, wide_view


def cannot_be_walked(leak: Leak) -> str | None:
    if leak.dropout:
        return "the client trains with dropout: what a right prefix would be computed to cannot be known"
    if any(defense.sparse or not defense.sizes or defense.rounding for defense in leak.defenses):
        return "what the client does to its gradient moves every vector out of the span"
    if leak.veiled:
        return _drowned(leak)
    if leak.batch > 1:
        if wide_view(leak) is None:
            return (
                "no exposed matrix tells the batch's words in their places, or its words fill the matrix's whole width"
            )
        return None if bag_of_words(leak) is not None else "nothing that leaks tells which words the batch has"
    if first_view(leak) is None and telling_of_words(leak) is None:
        if leak.weight("word") is not None:
            return "the table of words tells which ones occur, and nothing that leaks in which order"
        return "no exposed matrix tells words apart, or the sentence's words fill its whole width"
    return None


def _drowned(leak: Leak) -> str | None:
    """Whether the noise leaves too little."""
    if leak.batch > 1 or leak.weight("word") is None:
        return "under noise it reads one sentence, of which the word table leaks"
    views, words = loud_views(leak), bag_of_words(leak)
    if not views or words is None or len(words) < views[0].rank or 2 * views[0].rank < prefix_length(leak, views[0]):
        return "the noise leaves too little of the span and of the word table"
    return None


def walk(leak: Leak, budget: Budget, seed: int) -> Iterator[Snapshot]:
    if leak.veiled:
        return NoisySearch(leak, loud_views(leak), seed).run(budget, 0)
    view = wide_view(leak) if leak.batch > 1 else first_view(leak)
    if view is None:
        return WordOrder(leak, seed).run(budget)
    if leak.batch > 1:
        return PrefixBatch(leak, view).run(budget)
    return PrefixSearch(leak, view, seed).run(budget, 0)
