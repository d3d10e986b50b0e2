"""A decoder's last word is only a target, never an input, and the gradient is linear in its output vector:

    G = G₀ − c ∇(w · h)        w the word's output vector, h the state before it, c its share of the loss, G₀ the rest

So what a guess with any other word leaves of the leak tells which one is missing: with d the difference of their output
vectors, ⟨left, c ∇(d · h)⟩ = ‖left‖² for the right one.

    LastWord(leak, piece).likeliest(ids, chances)  # ids that may come last, best first

Of a batch, the last layer's narrowing matrix tells each sentence's: there a word's loss reaches its own place alone.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from demo.attacker.leak import Leak
from demo.turns import tick
from demo.victim.causal import Causal
from demo.victim.gradients import gradient_of
from demo.victim.slices import Piece

FEW = 8  # words that are looked at before the model's own expectations are
CLOSE = 1e-2  # a word that is right is told so to four digits
SMALL = 1e-5  # of a matrix is left by the right word at most


class LastWord:
    """Tried on the deepest matrix that leaks, whose gradient is had soonest; certificates are about all of them."""

    def __init__(self, leak: Leak, piece: Piece) -> None:
        self.leak, self.net, self.piece = leak, leak.model.net, deepest(leak, piece)
        self.leaked = leak.gradient[self.piece.name]

    def likeliest(self, ids: tuple[int, ...], chances: Tensor) -> Iterator[int]:
        """Those that explain this matrix, and after them those that the model expects."""
        yield from self.explaining(ids, chances)
        yield from chances.topk(FEW).indices.tolist()

    def explaining(self, ids: tuple[int, ...], chances: Tensor) -> Iterator[int]:
        """Those that explain this matrix; none where more than the last word is wrong."""
        assert isinstance(self.net, Causal)
        filler = int(chances.argmax())
        left = self.left((*ids, filler))
        if self._explains(left):
            yield filler
        pulls = self._pulls(ids, left)
        told = (pulls - pulls[filler]) / (len(ids) * left.square().sum())
        asked = (told - 1).abs().masked_fill(chances.isinf(), torch.inf).topk(FEW, largest=False)
        for word, off in zip(asked.indices.tolist(), asked.values.tolist(), strict=True):
            if off < CLOSE and self._explains(self.left((*ids, word))):
                yield word

    def left(self, ids: tuple[int, ...]) -> Tensor:
        """What a guess leaves of the leaked matrix."""
        guess = torch.tensor(ids, device=self.leaked.device)
        return gradient_of(self.leak.model, [guess], [0], [self.piece])[self.piece.name] - self.leaked

    def _explains(self, left: Tensor) -> bool:
        return bool(left.norm() <= SMALL * self.leaked.norm())

    def _pulls(self, ids: tuple[int, ...], left: Tensor) -> Tensor:
        """⟨left, ∇(w · h)⟩ of every word: w times the derivative of h along what is left, and where w is a row of the
        exposed matrix, that row of what is left times h."""
        net = self.net.trained
        assert isinstance(net, Causal)
        weight = getattr(net.parts()[self.piece.module], self.piece.kind)
        with torch.enable_grad():
            words = net.words[torch.tensor(ids, device=left.device)][None]
            state: Tensor = net.norm(net.inputs(net.embed(words), len(net.layers))[0, -1])
            along = torch.zeros(net.width, device=left.device, requires_grad=True)
            [product] = torch.autograd.grad((state * along).sum(), [weight], create_graph=True, allow_unused=True)
            turned = torch.autograd.grad((product * left).sum(), [along])[0] if product is not None else along.detach()
        pulls = net.output_table.detach() @ turned
        return pulls + left @ state.detach() if weight is net.output_table else pulls


def deepest(leak: Leak, piece: Piece) -> Piece:
    """The one of the last layer that is exposed, of the same kind as the given one where there is one."""
    same = [other for other in leak.pieces if other.part == piece.part and other.kind == piece.kind]
    inside = [other for other in same if other.layer is not None]
    return max(inside, key=lambda other: other.layer or 0) if inside else piece


def last_words_of_batch(leak: Leak, prefixes: Sequence[tuple[int, ...]], chances: Sequence[Tensor]) -> list[int] | None:
    """The last word of each sentence; None where the last layer's narrowing matrix does not leak.

    What a guess with other last words leaves of it is Σ δ_s x_sᵀ over the sentences, with x_s what the matrix reads at
    the last place that counts, which is known, and δ_s = N_sᵀ d_s / (sentences · words) behind the final norm.
    """
    net, device = leak.model.net, leak.model.device
    assert isinstance(net, Causal)
    last = len(net.layers) - 1
    piece = next(
        (piece for piece in leak.pieces if piece.layer == last and piece.name.endswith("ffn-out.weight")), None
    )
    if piece is None:
        return None
    fillers = [int(chance.argmax()) for chance in chances]
    guess = [torch.tensor([*ids, filler], device=device) for ids, filler in zip(prefixes, fillers, strict=True)]
    left = gradient_of(leak.model, guess, [0] * len(guess), [piece])[piece.name] - leak.gradient[piece.name]
    read, states = [], []
    for ids in prefixes:
        tick()
        words = net.words[torch.tensor(ids, device=device)][None]
        with torch.no_grad():
            state = net.state(words, last)
            read.append(net.matrix_input(state, last, "ffn-out")[0, -1])
            states.append(net.through(state, last)[0, -1])
    deltas = torch.linalg.lstsq(torch.stack(read).T.cpu().double(), left.T.cpu().double()).solution.to(left)
    found = []
    for state, delta, ids, filler, chance in zip(states, deltas, prefixes, fillers, chances, strict=True):
        tick()
        bend = torch.autograd.functional.jacobian(
            net.norm, state
        )  # (hidden, hidden), symmetric but for the norm's weight
        share = 1 / (len(prefixes) * len(ids))
        away = (net.output_table - net.output_table[filler]) @ (bend * share) - delta
        found.append(int(away.norm(dim=1).masked_fill(chance.isinf(), torch.inf).argmin()))
    return found
