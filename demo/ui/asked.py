"""What may be asked for, as a pydantic model: its fields come from the tables and from the fields of the client.

    validated(asked_of(limits), {"sentence": "Hi!", "slice": "bias", …})   # ValueError: unknown slice 'bias': choose …

Every message names the input that was wrong and says what would be right; of the input it repeats a few characters.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import Field
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError, create_model

from demo.attacker.attacks import ATTACKS, current
from demo.client.client import WERE_DEFENSES, Client, modern
from demo.settings import checked, clamp, fitting, settings_of, shown
from demo.ui.limits import Limits
from demo.victim.slices import SLICES

WEIGHTS = ("pretrained", "normal", "uniform")
LABELS = (0, 1)
KINDS = {"string": "text", "list": "list", "dict": "dict", "bool": "yes or no: give true or false"}


@functools.lru_cache(maxsize=10)
def asked_of(limits: Limits) -> type[BaseModel]:
    """The model of everything that a visitor of this server may ask for."""
    fields: dict[str, Any] = {
        "sentence": (str, ...),
        "labels": (list[Annotated[Any, AfterValidator(_label)]], ...),
        "model": (_one_of("model", limits.models), ...),
        "weights": (_one_of("weights", WEIGHTS, optional=True), ...),
        "scale": (_between("scale", 1e-3, 1.0), ...),
        "slice": (_one_of("slice", SLICES), ...),
        "layers": (list[Annotated[Any, AfterValidator(_layer)]], ...),
        "attack": (Annotated[_one_of("attack", ATTACKS), BeforeValidator(_today)], ...),
        "knows_length": (bool, ...),
        "knows_label": (bool, ...),
        "seconds": (_between("seconds", 1.0, limits.seconds), ...),
        "seed": (_between("seed", 0, 2**31 - 1, whole=True), ...),
        "settings": (dict[str, Any], ...),
        "defenses": (dict[str, dict[str, Any]], ...),
        **{field.name: (_of_field(field), field.default) for field in settings_of(Client)},
    }
    return create_model("Asked", __config__=ConfigDict(extra="forbid"), **fields)


def validated(model: type[BaseModel], values: Mapping[str, Any]) -> Any:
    """The values as the model holds them; or the first thing that is wrong with them."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as problem:
        raise ValueError(_told(problem, model)) from None


def modernised(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for when a field of the client still was a defense."""
    told, defenses = dict(asked), asked.get("defenses")
    if not isinstance(defenses, Mapping):
        return told
    told["defenses"] = {name: value for name, value in defenses.items() if name not in WERE_DEFENSES}
    for name in WERE_DEFENSES.keys() & defenses.keys():
        settings = defenses[name]
        told |= [modern(name, settings if isinstance(settings, Mapping) else {})]
    return told


def _told(problem: ValidationError, model: type[BaseModel]) -> str:
    first = problem.errors(include_url=False)[0]
    name = ".".join(str(part)[:40] for part in first["loc"])
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    if first["type"] == "missing":
        return f"{name} is missing: give all of {', '.join(model.model_fields)}"
    if first["type"] == "extra_forbidden":
        return f"there is no {name!r}: choose from {', '.join(model.model_fields)}"
    kind = KINDS.get(first["type"].partition("_")[0], "such value")
    return f"{name}: {shown(first['input'])} is no {kind}"


def _one_of(name: str, known: Sequence[str] | Mapping[str, Any], optional: bool = False) -> Any:
    def check(value: Any) -> str | None:
        if optional and not value:
            return None
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"unknown {name} {shown(value)}: choose one of {', '.join(known)}")
        return value

    return Annotated[Any, AfterValidator(check)]


def _between(name: str, low: float, high: float, whole: bool = False) -> Any:
    def check(value: Any) -> float:
        fit = clamp(value, low, high, name)
        return int(fit) if whole else fit

    return Annotated[Any, AfterValidator(check)]


def _of_field(field: Field) -> Any:
    return Annotated[Any, AfterValidator(lambda value: checked(field, fitting(field, value)))]


def _today(name: Any) -> Any:
    """The attack's name of today."""
    return current(name) if isinstance(name, str) else name


def _label(label: Any) -> int:
    if label not in LABELS:
        raise ValueError(f"label {shown(label)} does not exist: choose {LABELS[0]} or {LABELS[1]}")
    return int(label)


def _layer(layer: Any) -> int:
    if not isinstance(layer, int | float) or layer not in range(-99, 99):
        raise ValueError(f"layer {shown(layer)} does not exist: give whole numbers from 0")
    return int(layer)
