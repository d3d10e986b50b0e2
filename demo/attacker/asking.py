"""A decoder that is read at its last token, written as sums over the other tokens.

The mark that ends a sentence stands there, so its embedding and its query are known, and the weight ω = exp(c · e) that
it gives another token follows from that token's embedding e alone. Of the sentence, all that its attention passes on
is N = Σ ω e and Z = Σ ω of each head. So no token has a vector of its own in what leaks, as in an encoder's span:

    value              N of each head, but not how long it is                         heads × hidden numbers
    key                of each head Σ ω/Z (u · (e − N/Z)) e, where u is what the loss wants of its values; as many
    attention-output   what the value matrix makes of each head's N / Z                       hidden numbers
    query              what the key matrix makes of what the key's gradient tells; as many
    ffn-in, ffn-out, pooler   the state of that mark once it has asked the encoder too; as many
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from demo.attacker.leak import Leak
from demo.attacker.lens import embedded_at
from demo.victim.model import Model

STEEPEST = 40.0  # the largest exponent: beyond it one token has all the weight
SUMMED = ("value", "key", "attention-output", "query")  # what the sums tell exactly
WANTED = ("key", "query")  # what depends on the loss besides
SURELY = 0.99  # of a query or key gradient fits where that mark stands; elsewhere about a half does


@dataclass(frozen=True, eq=False)
class Sums:
    """What each token adds to the sums of each head: (…, tokens, heads, hidden), and (…, tokens, heads) for Z."""

    n: Tensor
    m: Tensor  # Σ ω (u · e) e
    z: Tensor

    def whole(self) -> "Sums":
        return Sums(self.n.sum(-3), self.m.sum(-3), self.z.sum(-2))

    def mean(self) -> "Sums":
        return Sums(self.n.mean(0), self.m.mean(0), self.z.mean(0))

    def with_at(self, place: int, new: "Sums") -> "Sums":
        """The whole if the token at a place were another."""
        all_of = self.whole()
        return Sums(
            all_of.n - self.n[place] + new.n, all_of.m - self.m[place] + new.m, all_of.z - self.z[place] + new.z
        )


class Asking:
    """The last token of a decoder, what it asks, and what comes of it."""

    def __init__(self, model: Model, length: int, label: int) -> None:
        assert model.net.decoder is not None
        self.net, self.label = model.net, label
        self.layer = model.net.decoder
        self.own = model.net.attention(self.layer)
        self.split = (self.own.heads, -1)
        end = torch.tensor(model.ends[1], device=model.device)
        self.row = embedded_at(model, end, [length - 1])[0, 0]
        self.query = self.own.query(self.row).unflatten(-1, self.split)  # (heads, size)
        self.keys, self.values = (part.weight.unflatten(0, self.split) for part in (self.own.key, self.own.value))
        self.asked = torch.einsum("hd,hdx->hx", self.query, self.keys) * self.own.scaling  # c of each head

    def vectors(self, embedded: Tensor, part: str) -> Tensor:
        """(rows, tokens, hidden) -> (rows, width): what leaks of them through a part."""
        pull = self.pull(embedded, part)
        sums = self.sums(embedded, pull).whole()
        return self.told(sums, pull, part) if part in SUMMED else self.tail(self.mixed(sums), embedded, part)

    def sums(self, embedded: Tensor, pull: Tensor) -> Sums:
        """(…, tokens, hidden) and (…, heads, hidden) -> what each token adds."""
        weight = (embedded @ self.asked.T).clamp(-STEEPEST, STEEPEST).exp()  # (…, tokens, heads)
        n = weight[..., None] * embedded[..., None, :]
        return Sums(n, (embedded @ pull.mT)[..., None] * n, weight)

    def told(self, sums: Sums, pull: Tensor, part: str) -> Tensor:
        """Sums over all tokens -> what leaks of them: (rows, width)."""
        if part == "value":
            return sums.n.flatten(-2)
        if part == "attention-output":
            return self.mixed(sums)
        mean, moment = sums.n / sums.z[..., None], sums.m / sums.z[..., None]
        spread = moment - (mean * pull).sum(-1, keepdim=True) * mean
        return (spread if part == "key" else torch.einsum("hdx,...hx->...hd", self.keys, spread)).flatten(-2)

    def mixed(self, sums: Sums) -> Tensor:
        """What the asking token gathers: (rows, hidden)."""
        mean = sums.n / sums.z[..., None]
        return torch.einsum("hdx,...hx->...hd", self.values, mean).flatten(-2) + self.own.value.bias

    def tail(self, mixed: Tensor, embedded: Tensor, stop: str = "") -> Tensor:
        """From what was gathered to the part where the leak is, or to the logits."""
        net = self.net
        own = net.after_attention(self.layer, self.row.expand(len(mixed), -1), mixed)
        cross, memory = net.attention(self.layer, cross=True), net.memory(embedded)
        query, key, value = cross.query(own), cross.key(memory), cross.value(memory)
        query, key, value = (x.unflatten(-1, self.split) for x in (query, key, value))
        weights = (torch.einsum("rhd,rthd->rht", query, key) * cross.scaling).softmax(-1)
        gathered = torch.einsum("rht,rthd->rhd", weights, value).flatten(1)
        attended = net.after_attention(self.layer, own, gathered, cross=True)
        if stop == "ffn-in":
            return attended
        inner = net.feed_forward(self.layer).wide(attended)
        if stop == "ffn-out":
            return inner
        state = net.after_feed_forward(self.layer, attended, inner)
        return state if stop == "pooler" else net.label(state)

    def pull(self, embedded: Tensor, part: str) -> Tensor:
        """What the loss wants of each head's values, as vectors beside embeddings: (rows, heads, hidden)."""
        nothing = torch.zeros(len(embedded), *self.asked.shape, device=embedded.device)
        if part not in WANTED:
            return nothing
        mixed = self.mixed(self.sums(embedded, nothing).whole()).detach()
        labels = torch.full((len(embedded),), self.label, device=embedded.device)
        with torch.enable_grad():
            mixed.requires_grad_(True)
            loss = F.cross_entropy(self.tail(mixed, embedded.detach()), labels, reduction="sum")
            (slope,) = torch.autograd.grad(loss, [mixed])
        return torch.einsum("rhd,hdx->rhx", slope.unflatten(-1, self.split), self.values)


def asking_length(leak: Leak) -> int | None:
    """A sentence's length, where a decoder's query or key leaks: what its end asks tells where it stands."""
    net = leak.model.net
    if net.decoder is None:
        return None
    end = torch.tensor(leak.model.ends[1], device=leak.model.device)
    rows = embedded_at(leak.model, end, range(net.longest))[:, 0]  # (places, hidden)
    own = net.attention(net.decoder)
    asked = own.query(rows).unflatten(-1, (own.heads, -1))
    query, key = (leak.weight(part, net.decoder) for part in ("query", "key"))
    if query is not None:
        fits = (F.normalize(rows, dim=1) @ query.T).norm(dim=1) / query.norm()
    elif key is not None:  # in each head, every row is a multiple of what is asked
        blocks = key.unflatten(0, asked.shape[1:])
        fits = torch.einsum("phd,hdx->phx", F.normalize(asked, dim=2), blocks).flatten(1).norm(dim=1) / key.norm()
    else:
        return None
    return int(fits.argmax()) + 1 if float(fits.max()) > SURELY else None
