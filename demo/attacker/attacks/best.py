"""Best: picks the attack for the slice at hand from the leak alone, and says which and why."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from demo.attacker.attacks.base import Attack, Budget, Snapshot
from demo.attacker.attacks.likelihood import Likelihood
from demo.attacker.attacks.robust import RobustSpan
from demo.attacker.attacks.rows import Rows
from demo.attacker.attacks.search import Search
from demo.attacker.attacks.span import Span
from demo.attacker.leak import Leak


@dataclass(frozen=True)
class Best:
    """Chooses among the others: what is instant and exact first, then the search, then descent."""

    fallback: Attack  # where nothing better fits
    through_dropout: Attack

    about: ClassVar = "Looks at what is exposed and takes the attack that reads it best; it says which, and why."

    def choose(self, leak: Leak) -> tuple[str, Attack, str]:
        """The name, the attack and the reason."""
        if not leak.model.net.both_ways and Search().supports(leak) is None:
            return "search", Search(), "a decoder's words can be checked one after the other"
        if Likelihood().supports(leak) is None:
            return "likelihood", Likelihood(), "the client adds noise, which only whole sentences outweigh"
        if Rows().supports(leak) is None and leak.weight("position") is not None:
            return "rows", Rows(), "the embedding rows hold the words and their places"
        if Span().supports(leak) is None:
            return "span", Span(), "a matrix that reads the embeddings spans exactly the sentence's words"
        if leak.dropout:
            if RobustSpan().supports(leak) is None:
                return "robust-span", RobustSpan(), "most coordinates of layer 0's input survive dropout"
            if Search().supports(leak) is None and leak.batch == 1:
                return "search", Search(), "a right word shows in the span even through dropout"
            return "grab", self.through_dropout, "dropout's masks have to be guessed with the words"
        if Search().supports(leak) is None:
            several = "the batch's sentences have" if leak.batch > 1 else "the sentence has"
            return "search", Search(), f"{several} to be searched"
        return "cosine", self.fallback, "nothing better fits this slice"

    def supports(self, leak: Leak) -> str | None:
        return self.choose(leak)[1].supports(leak)

    def run(self, leak: Leak, budget: Budget, seed: int = 0) -> Iterator[Snapshot]:
        name, attack, reason = self.choose(leak)
        said = f"{name}, as {reason}"
        for shot in attack.run(leak, budget, seed):
            yield replace(shot, stage=f"{said}: {shot.stage}")
            said = name  # the reason once is enough
        # The exact checks can miss, e.g. a word repeated beyond the rank; the search starts from their result.
        if name in ("rows", "span") and not shot.certified and not leak.veiled:
            for later in Search().run(leak, budget, seed):
                stage = f"search, as {name} fell short: {later.stage}"
                yield replace(later, step=shot.step + later.step, stage=stage)
