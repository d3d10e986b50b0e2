"""A prefix that is settled: its keys and values are kept, so that words after it cost as much as a word alone."""

from dataclasses import dataclass

import torch
from torch import Tensor

from demo.victim.anatomy import Attention, Masks, masked


@dataclass(frozen=True, eq=False)
class Settled:
    """A prefix's keys and values in every layer: (key heads, tokens, size); or several', row by row."""

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]

    @property
    def tokens(self) -> int:
        return self.keys[0].shape[-2]

    def of(self, rows: Tensor) -> "Settled":
        """Of several prefixes, the one that each row follows."""
        return Settled(tuple(x[rows] for x in self.keys), tuple(x[rows] for x in self.values))


def gathered(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    earlier: tuple[Tensor, Tensor] | None,
    attention: Attention,
    masks: Masks,
    site: str,
) -> Tensor:
    """(rows, heads, tokens, size) each; settled keys and values (heads, tokens, size) are the same for all rows."""
    rows, heads, tokens, _ = query.shape
    groups = key.shape[1]
    asked = query.unflatten(1, (groups, -1))  # several heads ask the same keys
    logits = asked @ key[:, :, None].mT * attention.scaling
    logits = logits + torch.full((tokens, tokens), -torch.inf, device=query.device, dtype=query.dtype).triu(1)
    if earlier is None:
        weights = masked(logits.softmax(-1).flatten(1, 2), masks, site).unflatten(1, (groups, -1))
        return _side_by_side(weights @ value[:, :, None])
    keys, values = earlier
    if keys.dim() == 4:
        old, new = _weights(asked @ keys[:, :, None].to(query.dtype).mT * attention.scaling, logits)
        return _side_by_side(old @ values[:, :, None].to(query.dtype) + new @ value[:, :, None])
    # Rows beside one another, so that what they share is multiplied once and never copied.
    keys, values = keys.to(query.dtype), values.to(query.dtype)  # a rough network may follow a prefix settled exactly
    flat = asked.permute(1, 0, 2, 3, 4).flatten(1, 3)
    before = (flat @ keys.mT * attention.scaling).unflatten(1, (rows, heads // groups, tokens)).transpose(0, 1)
    old, new = _weights(before, logits)
    shared = (old.transpose(0, 1).flatten(1, 3) @ values).unflatten(1, (rows, heads // groups, tokens))
    return _side_by_side(shared.transpose(0, 1) + new @ value[:, :, None])


def by_head(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _side_by_side(mix: Tensor) -> Tensor:
    """(rows, groups, heads of a group, tokens, size) -> (rows, tokens, width)"""
    return mix.flatten(1, 2).transpose(1, 2).flatten(2)


def _weights(before: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Of what came before, and of the new words."""
    old, new = torch.cat([before, own], dim=-1).softmax(-1).split([before.shape[-1], own.shape[-1]], dim=-1)
    return old, new


def joined(before: Tensor | None, more: Tensor) -> Tensor:
    """One prefix's has no rows, as all that follow it share it."""
    more = more[0] if len(more) == 1 else more
    return more if before is None else torch.cat([before, more], dim=-2)
