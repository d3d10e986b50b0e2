"""How an attack judges guesses where one vector leaks: the one that the classifier reads of the last layer."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from demo.attacker.algebra import solve, whitener
from demo.attacker.lens import BATCH, at_once, embedded_at, lens_at, random_sentences
from demo.attacker.subspace import View
from demo.attacker.vocabulary import Alphabet, Streams, Substitution
from demo.turns import tick
from demo.victim.model import Model
from demo.victim.rough import rough

FLOOR = 1e-3  # share of the mean variance below which a direction counts as noise
EVERYWHERE = 0.3  # weight of random sentences' spread beside that of the guess's neighbours
SOLVED = 1e-6  # relative error at which an equation counts as solved: the leak's own rounding
ALIKE = 18  # words per place that are most like the present one


class ReadoutJudge:
    """Judges by the one vector that the classifier reads: all that the last layer's matrices and the pooler tell.

    The vector's direction is known exactly, so all are compared at length 1; which way along it, random ones tell.
    Differences are weighed by how much they vary in each direction around the guess (Mahalanobis), or the few loudest
    directions would drown the rest.
    """

    def __init__(self, model: Model, view: View, length: int, seed: int) -> None:
        self.model, self.length, self.seed = model, length, seed
        self.part, self.target = view.part, view.bases[0][:, -1]
        # The last attention before the site: the site's own layer's, or for query and pooler the one before.
        self.mixer = view.layer if view.part not in ("query", "pooler") else view.layer - 1
        self.lens = lens_at(model, self.mixer, False, length, seed)
        self.alphabet = Alphabet.of(model, self.lens, self.mixer)
        self.directions = F.normalize(model.words, dim=1)
        ids = random_sentences(model, 10 * BATCH, length, seed + 1)
        if view.part == "ffn-out":
            self.part = "ffn-in"
            examples = self._site(self._before(ids[:BATCH]))
            read = before_gelu(model.net.feed_forward(self.mixer).widen, self.target, examples)
            self.part, self.target = ("ffn-out", self.target) if read is None else ("ffn-in", read)
        sites = self.sites(ids)
        self.everywhere = second_moment(sites - sites.mean(0))
        self.whitener = whitener(self.everywhere, FLOOR)
        same_way = (self.target @ self.whitener) @ (sites.mean(0) @ self.whitener) > 0
        self.target = F.normalize(self.target if same_way else -self.target, dim=0)

    # -- how far a guess is ------------------------------------------------------------------------------------------

    def focus(self, changes: Tensor) -> None:
        """Weighs differences as they vary around a guess: (n, width), what random substitutions did to the site.

        What the guess's other wrong words do to the vector is noise to the word in question, and random sentences tell
        that noise badly: around a guess it lies in other directions.
        """
        self.whitener = whitener(second_moment(changes) + EVERYWHERE * self.everywhere, FLOOR)

    @torch.no_grad()
    def sites(self, sentences: Tensor) -> Tensor:
        """(rows, tokens) ids -> (rows, width): the vectors that the exposed matrix would read, of length 1."""
        parts = sentences.split(at_once(self.length))
        return F.normalize(torch.cat([self._site(self._before(part)) for part in parts]), dim=1)

    def whitened(self, sites: Tensor) -> Tensor:
        """What site vectors of any length differ by from the leaked one, weighed: zero for the truth."""
        return (F.normalize(sites, dim=-1) - self.target) @ self.whitener

    def distance(self, sites: Tensor) -> Tensor:
        return self.whitened(sites).square().mean(-1)

    def score(self, sentences: Tensor) -> Tensor:
        """(rows, tokens) ids -> (rows,), 0 for the true sentence."""
        return self.distance(self.sites(sentences))

    def _before(self, sentences: Tensor) -> Tensor:
        """What the last attention reads; roughly, as guesses differ by far more."""
        return rough(self.model.net).inputs(self.model.net.embed(self.model.words[sentences]), self.mixer)

    def _site(self, before: Tensor) -> Tensor:
        """(rows, tokens, hidden) at the last attention's input -> (rows, width) at the exposed matrix."""
        attention = self.model.net.attention(self.mixer)
        row = before[:, self.model.net.read_row]
        split = (attention.heads, -1)
        query, key, value = attention.query(row), attention.key(before), attention.value(before)
        query, key, value = (x.unflatten(-1, split) for x in (query, key, value))
        weights = torch.einsum("rhd,rthd->rht", query, key) * attention.scaling
        mixed = torch.einsum("rht,rthd->rhd", weights.softmax(-1), value).flatten(1)
        return self._after(mixed, row)

    def _after(self, mixed: Tensor, row: Tensor) -> Tensor:
        net = self.model.net
        if self.part == "attention-output":
            return mixed
        attended = net.after_attention(self.mixer, row, mixed)
        if self.part == "ffn-in":
            return attended
        inner = net.feed_forward(self.mixer).wide(attended)
        return inner if self.part == "ffn-out" else net.after_feed_forward(self.mixer, attended, inner)

    # -- what to try -------------------------------------------------------------------------------------------------

    @torch.no_grad()  # of each stretch between two yields: a mode that is open at a yield is open to whoever reads them
    def propose(self, sentence: Tensor, always: Tensor, sifted: int) -> Iterator[tuple[Tensor, Tensor]]:
        """For each inner place of a guess, words that fit best there and how well each does: lower is better.

        The whole vocabulary is considered, and the words to rank `always` come last. The rank is the best of three
        estimates. One moves the token's own state and lets its neighbours stay; one adds half of the neighbours' change
        to first order; one takes words alike the present one (live, lives). Each finds what the others miss. The state
        is what the lens sees for the whole vocabulary, and what it becomes in the layers for the `sifted` best of each.
        """
        with torch.enable_grad():
            leaf = self.model.net.embed(self.model.words[sentence])[None].requires_grad_(True)
            before = self.model.net.inputs(leaf, self.mixer)
            slopes = torch.autograd.grad(self.distance(self._site(before)).sum(), [leaf, before])
        embedded, before = leaf[0].detach(), before[0].detach()
        streams = Streams(self.model.net, embedded, self.mixer)
        by_neighbours = slopes[0][0] - slopes[1][0] @ self.lens.matrix.T  # (tokens, hidden): less its own state's part
        swap = Substitution(
            self.model.net.attention(self.mixer),
            before,
            before[self.model.net.read_row],
            lambda mixed, row: self.whitened(self._after(mixed, row)),
            self.seed,
        )
        alike = self.directions[sentence] @ self.directions[self.model.ordinary].T
        for place, (alone, added) in enumerate(self.alphabet.sift(swap, embedded, by_neighbours), start=1):
            left = [least(alone, sifted), least(alone + 0.5 * added, sifted), least(-alike[place], ALIKE)]
            chosen = torch.cat([self.model.ordinary[torch.cat(left)], always])
            placed = embedded_at(self.model, chosen, [place])[0]
            alone, step = swap.distances(place, streams.carried(place, placed)), placed - embedded[place]
            unlike = -self.directions[chosen] @ self.directions[sentence[place]]
            estimates = torch.stack([alone, alone + 0.5 * (step @ by_neighbours[place]), unlike])
            standing = 0.1 * estimates.argsort(1).argsort(1).amin(0).log1p()
            again = (chosen[:, None] == chosen).triu(1).any(1)  # a word counts where it comes last
            yield chosen, standing.masked_fill(again, torch.inf)


def least(values: Tensor, count: int) -> Tensor:
    return values.topk(min(count, len(values)), largest=False).indices


def second_moment(vectors: Tensor) -> Tensor:
    return vectors.T @ vectors / len(vectors)


@torch.no_grad()
def before_gelu(linear: nn.Linear, direction: Tensor, examples: Tensor) -> Tensor | None:
    """The x whose gelu(linear(x)) points in this direction, or None: what ffn-out reads tells what ffn-in reads.

    Four equations per unknown; Levenberg's and Marquardt's method takes half a dozen steps from the examples' mean.
    """
    matrix, bias, along = (t.cpu().double() for t in (linear.weight, linear.bias, direction))
    x = examples.cpu().double().mean(0)
    scale = F.gelu(matrix @ x + bias) @ along / along.square().sum()
    damping, error = 1.0, F.gelu(matrix @ x + bias) - scale * along
    for _ in range(100):
        tick()
        z = matrix @ x + bias
        slope = torch.special.ndtr(z) + z * torch.exp(-z.square() / 2) / (2 * torch.pi) ** 0.5
        jacobian = torch.cat([slope[:, None] * matrix, -along[:, None]], dim=1)
        normal = jacobian.T @ jacobian
        step = solve(normal + damping * normal.diagonal().diag(), -(jacobian.T @ error)[:, None])[:, 0]
        new_x, new_scale = x + step[:-1], scale + step[-1]
        new_error = F.gelu(matrix @ new_x + bias) - new_scale * along
        if new_error.norm() < error.norm():
            x, scale, error, damping = new_x, new_scale, new_error, damping / 4
        else:
            damping *= 4
        if error.norm() < SOLVED * scale.abs() * along.norm():
            return x.to(direction)
    return None
