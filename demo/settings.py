"""Fields of a frozen dataclass that people may change: on screen a control, with its help, between its bounds.

    class Noise:
        noise_multiplier: float = setting(1e-3, "noise, as a multiple of the clipping norm", 0.0, 10.0)

What may stand in a field is said here alone. Controls, links, the API, the command line and files ask these functions:

    with_settings(Noise(), "noise", [("noise_multiplier", 0.5)])   Noise(0.5), or a ValueError that says what is right
    fitting(field, 99)                                             10.0: brought between the bounds
    read(field, "1e-3"), write(field, 1e-3)                        0.001 and "0.001"
"""

import functools
from collections.abc import Sequence
from dataclasses import Field, field, fields, is_dataclass, replace
from typing import Annotated, Any, Literal, Optional, cast

from pydantic import Field as Bounds
from pydantic import TypeAdapter, ValidationError

MOST_SHOWN = 40  # characters of a wrong value in an error


def setting(
    default: Any,
    help: str,
    low: float = 0,
    high: float = 0,
    choices: Sequence[str] = (),
    label: str = "",
    step: float = 0,
    link: str = "",
    unset: str = "",
    **more: Any,
) -> Any:
    """`label` is the control's title, `step` makes it a slider, `link` is its name in links, and `unset` how None is
    spelled, where there may be none. `more` is what only some kinds of fields say of themselves."""
    bounds = {"low": low, "high": high, "choices": tuple(choices)}
    names = {"label": label, "step": step, "link": link, "unset": unset}
    return field(default=default, metadata={"help": help, **bounds, **names, **more})


def settings_of(thing: Any) -> tuple[Field, ...]:
    """The fields of an attack, a defense or a client that people may change."""
    return tuple(f for f in fields(thing) if "help" in f.metadata) if is_dataclass(thing) else ()


def label_of(field: Field) -> str:
    return field.metadata["label"] or field.name.replace("_", " ")


def link_of(field: Field) -> str:
    return field.metadata["link"] or field.name


def kind_of(field: Field) -> Any:
    """The field as a type that pydantic checks: float and 0 to 0.4, or one of some words."""
    told, kind = field.metadata, cast(Any, type(field.default))
    if told["choices"]:
        kind = Literal[told["choices"]]
    elif kind is not bool:
        kind = Annotated[kind, Bounds(ge=told["low"], le=told["high"])]
    return Optional[kind] if told["unset"] else kind  # noqa: UP045 (made at run time)


@functools.lru_cache(maxsize=1000)
def _adapter(field: Field) -> TypeAdapter:
    return TypeAdapter(kind_of(field))


def checked(field: Field, value: Any) -> Any:
    """The value as the field holds it; or an error that says what would be right."""
    try:
        return _adapter(field).validate_python(value)
    except ValidationError:
        raise ValueError(f"{field.name} is {repr(value)[:MOST_SHOWN]}: {right(field)}") from None


def right(field: Field) -> str:
    """What would be right: give a number from 0 to 10"""
    told = field.metadata
    if told["choices"]:
        return f"choose one of {', '.join(filter(None, told['choices']))}"
    if isinstance(field.default, bool):
        return "give true or false"
    return f"give a number from {told['low']} to {told['high']}"


def fitting(field: Field, value: Any) -> Any:
    """A number brought between the field's bounds; anything else as it is, right or wrong."""
    told, kind = field.metadata, type(field.default)
    if kind not in (int, float) or (value is None and told["unset"]):
        return value
    return kind(clamp(value, told["low"], told["high"], field.name))


def clamp(value: Any, low: float, high: float, name: str = "") -> float:
    if not isinstance(value, int | float) or value != value:
        called = f"{name}: " if name else ""
        raise ValueError(f"{called}{shown(value)} is not a number: give one from {low:g} to {high:g}")
    return min(max(value, low), high)


def shown(value: Any) -> str:
    """A wrong value in an error: enough of it to find it."""
    text = repr(value) if not isinstance(value, int | float) else str(value)
    return text if len(text) <= MOST_SHOWN + 2 else f"{text[:MOST_SHOWN]}…"


def read(field: Field, text: str) -> Any:
    """What a link or a command line says; numbers out of bounds are refused."""
    return None if text and text == field.metadata["unset"] else checked(field, text)


def write(field: Field, value: Any) -> str:
    if value is None:
        return field.metadata["unset"]
    if isinstance(value, bool):
        return f"{value:d}"
    return value if isinstance(value, str) else f"{value:g}"


def with_settings(thing: Any, name: str, settings: Sequence[tuple[str, Any]]) -> Any:
    """The same with some settings changed; errors name the setting and what would be right."""
    known = {f.name: f for f in settings_of(thing)}
    for key, _ in settings:
        if key not in known:
            told = ", ".join(known) or "none"
            raise ValueError(f"{name} has no setting {str(key)[:MOST_SHOWN]!r}: it has {told}")
    changes = {key: checked(known[key], value) for key, value in settings}
    return replace(thing, **changes) if changes else thing
