"""What one visitor may ask for, so that a public page stays up for all of them."""

import math
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import gradio as gr

from demo.victim.models import MODELS

MINUTE = 60.0
SECONDS = {"cuda": 180.0, "mps": 120.0, "cpu": 90.0}  # the longest budget: a slow device is longer in the way of others
USUAL = 60.0  # seconds of an attack, unless one asks for another budget
SECONDS_LENT, USUAL_LENT = 60.0, 20.0  # where a visitor has two minutes of GPU a day


@dataclass(frozen=True)
class Limits:
    """How much one visitor may ask for; LEAKSCOPE_SECONDS, _TOKENS and so on override the defaults."""

    seconds: float = SECONDS["cpu"]  # of an attack, at most
    usual: float = USUAL  # seconds that an attack has, unless one asks for more or less
    tokens: int = 64  # of a sentence, without the marks at its ends
    queue: int = 40  # visitors waiting: a class, and some more
    survey: float = 900.0  # seconds of a whole map or sweep, as others wait for its end
    per_visitor: int = 20  # runs that one browser may start in a minute; 0: any number
    per_address: int = 300  # the same for an address, which a whole class may share
    models: tuple[str, ...] = tuple(MODELS)

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ, device: str = "cpu", lent: bool = False
    ) -> "Limits":
        seconds = SECONDS_LENT if lent else SECONDS.get(device, cls.seconds)
        values: dict[str, Any] = {"seconds": seconds, "usual": USUAL_LENT if lent else cls.usual}
        for name, default in ((field.name, field.default) for field in fields(cls) if field.name != "models"):
            variable = f"LEAKSCOPE_{name.upper()}"
            if variable in environment:
                values[name] = _number(variable, environment[variable], type(default), name.startswith("per_"))
        if "LEAKSCOPE_MODELS" in environment:
            values["models"] = _models(environment["LEAKSCOPE_MODELS"])
        return cls(**values)

    @property
    def budget(self) -> float:
        """Seconds that an attack has where nobody chose."""
        return min(self.usual, self.seconds)


def _number(variable: str, text: str, kind: Any, may_be_zero: bool) -> float:
    try:
        value = kind(text)
    except ValueError:
        raise ValueError(f"{variable} is {text!r}: give a number") from None
    if not (0 < value < math.inf or (value == 0 and may_be_zero)):
        raise ValueError(f"{variable} is {text!r}: give a number {'from' if may_be_zero else 'above'} 0")
    return value


def _models(text: str) -> tuple[str, ...]:
    """minilm, tinybert4 -> those two, in the table's order."""
    names = {name.strip() for name in text.split(",")} - {""}
    wrong = sorted(names - set(MODELS))
    if wrong or not names:
        raise ValueError(f"LEAKSCOPE_MODELS is {text!r}: choose some of {', '.join(MODELS)}")
    return tuple(name for name in MODELS if name in names)


class Visitors:
    """Who has started how many runs within the last minute; nothing else is kept of them, and nothing longer."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.starts: deque[tuple[float, str, str]] = deque()  # when, which browser, from which address
        self.lock = threading.Lock()

    def admit(self, request: gr.Request | None) -> None:
        """Counts a run, or refuses it with a ValueError. A class shares an address, but no two of it a browser."""
        if request is not None:
            host = request.client.host if request.client else ""
            self.count(str(request.session_hash), host, time.monotonic())

    def count(self, session: str, address: str, now: float) -> None:
        with self.lock:
            while self.starts and now - self.starts[0][0] >= MINUTE:
                self.starts.popleft()
            allowed = (
                (1, session, self.limits.per_visitor, "you have"),
                (2, address, self.limits.per_address, "the visitors of your network have"),
            )
            for column, who, most, named in allowed:
                times = [start[0] for start in self.starts if start[column] == who]
                if most and len(times) >= most:
                    wait = math.ceil(times[-most] + MINUTE - now)
                    raise ValueError(f"{named} started {most} runs within a minute: try again in {wait} s")
            self.starts.append((now, session, address))
