"""Kinds of values as links write them. What cannot be read raises ValueError, with what would be right."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

WHOLE, ANY = TypeAdapter(int), TypeAdapter(float)


class Kind(Protocol):
    def read(self, text: str) -> tuple[Any, Any]:
        """The value as it was given, and as it fits."""

    def write(self, value: Any) -> str: ...


@dataclass(frozen=True)
class Field:
    kind: Kind
    default: Any = None
    always: bool = False  # written even where it is the default


@dataclass(frozen=True)
class Text:
    longest: int

    def read(self, text: str) -> tuple[str, str]:
        if len(text) > self.longest:
            raise ValueError(f"of its {len(text)} characters, at most {self.longest} are taken")
        return text, text

    def write(self, value: str) -> str:
        return value


@dataclass(frozen=True)
class Name:
    """A name that others look up."""

    def read(self, text: str) -> tuple[str, str]:
        if not re.fullmatch(r"[\w-]{1,40}", text):
            raise ValueError("give a name of letters, digits and hyphens")
        return text, text

    def write(self, value: str) -> str:
        return value


@dataclass(frozen=True)
class Choice:
    """One of a few values, by how each is written."""

    values: Mapping[str, Any]

    def read(self, text: str) -> tuple[Any, Any]:
        if text not in self.values:
            raise ValueError(f"choose one of {', '.join(self.values)}")
        return self.values[text], self.values[text]

    def write(self, value: Any) -> str:
        return next((text for text, known in self.values.items() if known == value), f"{value}")


@dataclass(frozen=True)
class Several:
    """Any of a few names, with commas between them; unknown ones are left out."""

    names: Sequence[str]

    def read(self, text: str) -> tuple[list[str], list[str]]:
        given = [name for name in text.split(",") if name]
        return given, [name for name in given if name in self.names]

    def write(self, value: Sequence[str]) -> str:
        return ",".join(value)


@dataclass(frozen=True)
class Number:
    low: float
    high: float
    whole: bool = False

    def read(self, text: str) -> tuple[float, float]:
        try:
            value: float = (WHOLE if self.whole else ANY).validate_python(text)
        except ValidationError:
            value = math.nan
        if value != value:  # no number; math.isnan takes no whole number of 400 digits
            raise ValueError(f"give a {'whole ' * self.whole}number from {self.low:g} to {self.high:g}")
        return value, min(max(value, self.low), self.high)

    def write(self, value: float) -> str:
        short = f"{value:g}"
        return short if float(short) == value and "e+" not in short else repr(value)


@dataclass(frozen=True)
class Numbers:
    """Whole numbers with commas between them."""

    each: Number

    def read(self, text: str) -> tuple[list[float], list[float]]:
        found = [self.each.read(part) for part in text.split(",")]
        return sorted({given for given, _ in found}), sorted({fitting for _, fitting in found})

    def write(self, value: Sequence[int]) -> str:
        return ",".join(map(self.each.write, value))
