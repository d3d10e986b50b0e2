"""How tokens are written: on tiles, where blanks and broken characters must be seen, and which may be guessed.

written(tokenizer, [504, 3158])  # ["The", "·patient"]
"""

import functools
import re
from collections.abc import Sequence
from typing import Any

import torch
from tokenizers import decoders
from torch import Tensor

BYTE = re.compile("<0x([0-9A-F]{2})>")
SIGNS = {" ": "·", "\n": "⏎", "\r": "↵", "\t": "⇥"}


def written(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Each token as it is read; of tokenizers that keep blanks, as ·word. No blank is left in any."""
    tokens = tokenizer.convert_ids_to_tokens(list(ids))
    if by_bytes(tokenizer):
        special = special_ids(tokenizer)
        return [token if id in special else spelled(token) for id, token in zip(ids, tokens, strict=True)]
    if isinstance(tokenizer.backend_tokenizer.decoder, decoders.WordPiece):
        return tokens
    return [_by_number(token) or token.replace("▁", SIGNS[" "]) for token in tokens]


def by_bytes(tokenizer: Any) -> bool:
    """Whether it reads bytes, each written as a character of its own, so that nothing is unknown to it."""
    return isinstance(tokenizer.backend_tokenizer.decoder, decoders.ByteLevel)


@functools.cache
def spelled(token: str) -> str:
    """Ġword -> ·word; a byte that is no whole character as ⟨E2⟩."""
    text = bytes(_alphabet()[sign] for sign in token).decode(errors="surrogateescape")
    return "".join(map(_sign, text))


def _by_number(token: str) -> str:
    """<0x0A> -> ⏎; nothing for what is no byte."""
    byte = BYTE.fullmatch(token)
    return "".join(map(_sign, bytes([int(byte[1], 16)]).decode(errors="surrogateescape"))) if byte else ""


def _sign(sign: str) -> str:
    """A character that can be seen."""
    if sign in SIGNS:
        return SIGNS[sign]
    if "\udc80" <= sign <= "\udcff":  # Python's own sign for a byte that could not be read
        return f"⟨{ord(sign) - 0xDC00:02X}⟩"
    return sign if sign.isprintable() else f"⟨U+{ord(sign):04X}⟩"


def special_ids(tokenizer: Any) -> set[int]:
    """Ids that stand for no text that a person can type; an unknown word's does."""
    added = {id for id, token in tokenizer.added_tokens_decoder.items() if token.special}
    unknown = set() if by_bytes(tokenizer) else {tokenizer.unk_token_id}
    return (added | set(tokenizer.all_special_ids)) - unknown


def ordinary_ids(tokenizer: Any) -> Tensor:
    """What an attack may guess."""
    special, tokens = special_ids(tokenizer), tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    return torch.tensor([i for i, t in enumerate(tokens) if i not in special and not t.startswith("[unused")])


@functools.cache
def _alphabet() -> dict[str, int]:
    """The character that stands for each byte: itself where it can be seen, else one beyond those."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unseen = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + n): byte for n, byte in enumerate(unseen)}
