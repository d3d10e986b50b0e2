"""How an attack judges guesses by a decoder, where one token asks and all others answer.

What leaks (`asking`) are sums over the sentence's words, which makes a riddle: which words, one at each place, add
up to this? `attacks.beam` finds nearly all of them at once, and `attacks.readout` the rest, as where one
vector leaks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from demo.attacker.algebra import solve, whitener
from demo.attacker.asking import SUMMED, Asking, Sums
from demo.attacker.leak import Leak
from demo.attacker.lens import BATCH, embedded_at, random_sentences
from demo.attacker.readout import EVERYWHERE, ReadoutJudge, before_gelu, least, second_moment
from demo.attacker.subspace import View, completed, views
from demo.turns import ticking

# What tells most of the sentence comes first.
ORDER = ("value", "key", "attention-output", "query", "ffn-in", "pooler", "ffn-out")
CHUNK = 4096  # words looked at together
FLOOR = 1e-6  # share of the mean variance below which a direction counts as rounding
SAMPLES = 10 * BATCH  # random sentences that tell how vectors vary
FITTED = 40 * BATCH  # and from which is fitted what a word adds, where the sums do not tell


def asking_view(leak: Leak) -> View | None:
    """The matrix of a decoder, or of what reads it, that tells most; None where there is none that tells anything."""
    decoder = leak.model.net.decoder
    if decoder is None or leak.batch > 1 or leak.dropout:
        return None
    found = [view for view in views(leak) if view.layer >= decoder]
    return min(found, key=lambda view: ORDER.index(view.part), default=None)


@dataclass(frozen=True, eq=False)
class Field:
    """A guess, or the average sentence, in which a word is to be placed."""

    embedded: Tensor  # (tokens, hidden)
    sums: Sums  # of each token
    pull: Tensor  # (heads, hidden)
    vector: Tensor  # (width,): what leaks of it


class DecoderJudge(ReadoutJudge):
    """Judges by the vectors that the asking token gathers; `ReadoutJudge` says how vectors are compared."""

    def __init__(self, leak: Leak, view: View, length: int, seed: int, label: int) -> None:
        self.model, self.length, self.seed, self.part = leak.model, length, seed, view.part
        self.asking = Asking(leak.model, length, label)
        self.groups = self.asking.split[0] if view.part == "value" else 1  # vectors whose lengths are unknown
        count = SAMPLES if view.part in SUMMED else FITTED
        ids = random_sentences(leak.model, count, length, seed + 1)
        leaked = self._leaked(view, ids[:BATCH])
        vectors = self.vectors(ids)
        self.matrix = self._fitted(ids, vectors)
        self.sizes = vectors.unflatten(-1, (self.groups, -1)).norm(dim=-1).mean(0)[:, None]
        sites = self.unit(vectors[:SAMPLES])
        middle = sites.mean(0)
        self.everywhere = second_moment(sites - middle)
        self.whitener = precise_whitener(self.everywhere)
        self.target = self.unit(leaked)
        same_way = (self.target * middle).unflatten(0, (self.groups, -1)).sum(1, keepdim=True).sign()
        self.target = (self.target.unflatten(0, (self.groups, -1)) * same_way).flatten()

    def _leaked(self, view: View, ids: Tensor) -> Tensor:
        """The vectors that the leaked matrix holds, up to their lengths and signs."""
        split, query = self.asking.split, self.asking.query
        if view.part == "key":  # a head's rows are its query times the vector
            return torch.einsum(
                "hdx,hd->hx", view.gradient.unflatten(0, split), query / query.norm(dim=1)[:, None] ** 2
            ).flatten()
        if view.part == "query":
            return view.gradient @ self.asking.row
        blocks = view.sent.unflatten(0, split) if view.part == "value" else view.gradient[None]
        if view.sparse and view.part == "value":  # one vector a head, whatever the length
            blocks = torch.stack([completed(block, 1) for block in blocks])
        leaked = torch.linalg.svd(blocks.cpu().double(), full_matrices=False).Vh[:, 0].flatten().to(view.gradient)
        if view.part == "ffn-out":
            self.part = "ffn-in"
            read = before_gelu(self.model.net.feed_forward(self.asking.layer).widen, leaked, self.vectors(ids))
            self.part, leaked = ("ffn-out", leaked) if read is None else ("ffn-in", read)
        return leaked

    def _fitted(self, ids: Tensor, vectors: Tensor) -> Tensor:
        """(hidden, width): what a token's embedding adds to the vector, whatever the others are."""
        embedded = self.model.net.embed(self.model.words[ids])[:, self.model.inside(ids.shape[1])].sum(1)
        inputs, outputs = (x - x.mean(0) for x in (embedded, vectors))
        gram = inputs.T @ inputs
        ridge = 1e-6 * gram.diagonal().mean() * torch.eye(len(gram), device=gram.device)
        return solve(gram + ridge, inputs.T @ outputs)

    # -- how far a guess is ------------------------------------------------------------------------------------------

    def focus(self, changes: Tensor) -> None:
        self.whitener = precise_whitener(second_moment(changes) + EVERYWHERE * self.everywhere)

    def unit(self, vectors: Tensor) -> Tensor:
        """Each group at the same length, as the leak does not tell it."""
        return F.normalize(vectors.unflatten(-1, (self.groups, -1)), dim=-1).flatten(-2) / self.groups**0.5

    def usual(self, vectors: Tensor) -> Tensor:
        """Each group at the length that it has in random sentences."""
        return (F.normalize(vectors.unflatten(-1, (self.groups, -1)), dim=-1) * self.sizes).flatten(-2)

    def sites(self, sentences: Tensor) -> Tensor:
        return self.unit(self.vectors(sentences))

    def whitened(self, sites: Tensor) -> Tensor:
        return (self.unit(sites) - self.target) @ self.whitener

    @torch.no_grad()
    def vectors(self, sentences: Tensor) -> Tensor:
        """(rows, tokens) ids -> (rows, width): what would leak of them, at their own lengths."""
        embed, words = self.model.net.embed, self.model.words
        return torch.cat([self.asking.vectors(embed(words[part]), self.part) for part in sentences.split(BATCH)])

    # -- what to try -------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def field(self, sentences: Tensor) -> Field:
        """One sentence, or the average of several, as words are placed in it."""
        asking, embedded = self.asking, self.model.net.embed(self.model.words[sentences])
        pull = asking.pull(embedded, self.part).mean(0)
        sums = asking.sums(embedded, pull.expand(len(embedded), -1, -1)).mean()
        summed = self.part in SUMMED
        vector = asking.told(sums.whole(), pull, self.part) if summed else self.vectors(sentences).mean(0)
        return Field(embedded.mean(0), sums, pull, vector)

    @torch.no_grad()
    def placed(self, field: Field, place: int, words: Tensor) -> Tensor:
        """(n,) words put at a place, one at a time -> (n, width) vectors."""
        embedded = embedded_at(self.model, words, [place])[0]
        if self.part not in SUMMED:
            return field.vector + (embedded - field.embedded[place]) @ self.matrix
        changed = field.sums.with_at(place, self.asking.sums(embedded, field.pull))
        return self.asking.told(changed, field.pull, self.part)

    def propose(self, sentence: Tensor, always: Tensor, sifted: int) -> Iterator[tuple[Tensor, Tensor]]:
        """For each inner place of a guess, the words that fit best there and how well each does: lower is better."""
        field, words = self.field(sentence[None]), torch.cat([self.model.ordinary, always])
        known = len(self.model.ordinary)
        for place in range(1, self.length - 1):
            far = torch.cat([self.distance(self.placed(field, place, part)) for part in ticking(words.split(CHUNK))])
            best = torch.cat([least(far[:known], sifted), torch.arange(known, len(words), device=words.device)])
            chosen, standing = words[best], 0.1 * far[best].argsort().argsort().log1p()
            again = (chosen[:, None] == chosen).triu(1).any(1)  # a word counts where it comes last
            yield chosen, standing.masked_fill(again, torch.inf)


def precise_whitener(covariance: Tensor) -> Tensor:
    """(width, width): after it, vectors of this covariance vary alike in every direction, the faintest too."""
    return whitener(covariance.cpu().double(), FLOOR).to(covariance)
