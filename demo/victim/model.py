"""A `Model`: a network with its tokenizer. It is public: the attacker has it too.

ids = model.encode("the cat sat")   # tensor([101, 1996, 4937, 2938, 102])
model.inner(ids)                    # tensor([1996, 4937, 2938]): without the marks at the ends
model.text(ids)                     # "the cat sat"
"""

import itertools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from demo.victim.anatomy import Anatomy
from demo.victim.hub import ModelError
from demo.victim.spelling import special_ids, written


@dataclass(frozen=True, eq=False)
class Model:
    """A network with its tokenizer, on a device. Public knowledge: client and attacker hold the same one."""

    id: str
    title: str
    net: Anatomy
    tokenizer: Any
    device: torch.device
    ordinary: Tensor  # ids an attack may guess: [UNK], but no other special token, no [unused…]
    ends: tuple[tuple[int, ...], tuple[int, ...]]  # ids that every sentence begins and ends with, which are known

    @property
    def words(self) -> Tensor:
        return self.net.words  # (vocabulary, hidden)

    @property
    def layers(self) -> int:
        return len(self.net.layers)

    @property
    def hidden(self) -> int:
        return self.net.width

    @property
    def reads(self) -> bool:
        """Whether sentences can be tokenized; an outline cannot before its tokenizer has been fetched."""
        return self.tokenizer is not None

    @property
    def nothing(self) -> int:
        """The id that stands where nothing is guessed yet."""
        ids = (self.tokenizer.mask_token_id, self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, 0)
        return next(id for id in ids if id is not None)

    def encode(self, sentence: str) -> Tensor:
        """A sentence -> its token ids (tokens,), with the marks at its ends; "[SEP]" typed is ordinary text."""
        limit, (first, last) = self.net.longest, self.ends
        if not self.reads:
            raise ModelError(f"{self.id} is not here yet: its tokens can be counted once it has been fetched")
        read = self.tokenizer(sentence, verbose=False, split_special_tokens=True, add_special_tokens=False).input_ids
        ids = [*first, *read, *last]
        if not read:
            raise ModelError("the sentence is empty: give at least one word")
        if not self.net.labels and len(ids) < 2:
            raise ModelError("the sentence is a single token, which no word tells of: give at least two")
        if len(ids) > limit:
            raise ModelError(f"the sentence has {len(ids)} tokens, but {self.id} reads at most {limit}")
        return torch.tensor(ids, device=self.device)

    def blank(self, *lengths: int) -> Tensor:
        """[CLS] [MASK] … [MASK] [SEP]: a sentence, or some end to end, of which only the length is known."""
        each = [torch.full((length,), self.nothing, device=self.device) for length in lengths]
        return torch.cat([self.with_ends(ids) for ids in each])

    def with_ends(self, ids: Tensor) -> Tensor:
        """Guesses (…, tokens) with the known marks at their ends, written in place."""
        first, last = (torch.tensor(end, dtype=ids.dtype, device=ids.device) for end in self.ends)
        ids[..., : len(first)] = first
        ids[..., ids.shape[-1] - len(last) :] = last
        return ids

    def inside(self, length: int) -> slice:
        """The places of a sentence's words: all but the marks at its ends."""
        return slice(len(self.ends[0]), length - len(self.ends[1]))

    def inner(self, ids: Tensor) -> Tensor:
        """A sentence's words (…, tokens) without the marks at its ends."""
        return ids[..., self.inside(ids.shape[-1])]

    def inner_places(self, *lengths: int) -> Tensor:
        """Where the words of a batch stand that is laid end to end."""
        starts = itertools.accumulate(lengths, initial=0)
        spans = [range(length)[self.inside(length)] for length in lengths]
        places = [start + n for start, span in zip(starts, spans, strict=False) for n in span]
        return torch.tensor(places, dtype=torch.long, device=self.device)  # also where there are none

    def targets(self, ids: Tensor, label: int) -> Tensor:
        """What the loss asks for, of one sentence: its label (1,), or its own words (1, tokens)."""
        return torch.tensor([label], device=self.device) if self.net.labels else ids[None]

    def sentences(self, ids: Tensor, lengths: tuple[int, ...] | None = None) -> list[Tensor]:
        """A batch laid end to end -> its sentences, each from its first mark on; without marks, by their lengths."""
        if not self.ends[0]:
            return list(ids.split(lengths or (len(ids),)))
        starts = (ids == self.ends[0][0]).nonzero()[:, 0].tolist()
        return [ids[start:end] for start, end in zip(starts, [*starts[1:], len(ids)], strict=True)]

    def text(self, ids: Tensor) -> str:
        """Readable text; of the special tokens only [UNK] is kept, as it stands for something the person wrote."""
        special = special_ids(self.tokenizer)
        return self.tokenizer.decode([i for i in ids.tolist() if i not in special])

    def tokens(self, ids: Tensor) -> list[str]:
        """Each as it is shown."""
        return written(self.tokenizer, ids.tolist())
