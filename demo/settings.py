"""Fields of a frozen dataclass that people may change: on screen a control, with its help, between its bounds."""

from collections.abc import Sequence
from dataclasses import Field, field, fields, is_dataclass, replace
from typing import Any


def setting(default: Any, help: str, low: float = 0, high: float = 0, choices: Sequence[str] = ()) -> Any:
    return field(default=default, metadata={"help": help, "low": low, "high": high, "choices": tuple(choices)})


def settings_of(thing: Any) -> tuple[Field, ...]:
    """The fields of an attack or a defense that people may change."""
    return tuple(f for f in fields(thing) if "help" in f.metadata) if is_dataclass(thing) else ()


def with_settings(thing: Any, name: str, settings: Sequence[tuple[str, Any]]) -> Any:
    """The same with some settings changed; errors name the setting and what would be right."""
    known, checked = {f.name: f for f in settings_of(thing)}, {}
    for key, value in settings:
        if key not in known:
            raise ValueError(f"{name} has no setting {str(key)[:40]!r}: it has {', '.join(known) or 'none'}")
        bounds, kind = known[key].metadata, type(getattr(thing, key))
        if bounds["choices"]:
            if value not in bounds["choices"]:
                raise ValueError(f"{key} is {repr(value)[:40]}: choose one of {', '.join(bounds['choices'])}")
        elif kind is not bool and not (isinstance(value, int | float) and bounds["low"] <= value <= bounds["high"]):
            raise ValueError(f"{key} is {repr(value)[:40]}: give a number from {bounds['low']} to {bounds['high']}")
        checked[key] = kind(value)
    return replace(thing, **checked) if checked else thing
