"""What a recording holds, field by field: the one place that says it, for Python and for the browser.

    Recording.model_validate_json(text) # a recording, or pydantic's word of what is wrong with it
    python -m demo.screen.recording_format               # writes the same as assets/stage/shapes.js

Recordings come from anybody. The browser checks them by the shapes that are written here (assets/stage/recording.js);
that lists of a frame are of one length, and that frames follow each other, is said there.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SHAPES = Path(__file__).parents[2] / "assets" / "stage" / "shapes.js"
FORMAT, VERSION = "leakscope-run", 1
FRAMES, TOKENS, WORDS = 5000, 600, 1000  # at most, as in all lists below
WIDE = 120  # columns of a line of code

Number = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)]
Natural = Annotated[int, Field(ge=0, le=2**53 - 1)]
Percent = Annotated[float, Field(ge=0, le=100)]
Letters = Annotated[str, Field(max_length=200)]
Text = Annotated[str, Field(max_length=2000)]
Marks = Annotated[str, Field(max_length=TOKENS, pattern=r"^[=~x]*$", description="made of = ~ x")]
BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
Bits = Annotated[str, Field(max_length=2000, pattern=BASE64, description="base64")]
Point = Annotated[list[Number], Field(min_length=3, max_length=3, description="three numbers")]
Known = Annotated[tuple[Letters, Number, Number, Number], Field(description="a word and three numbers")]


TREE: Any = {"format": "tree"}  # read by assets/stage/growth.js
Growth = Annotated[str, Field(max_length=500_000, description="how a tree of prefixes grew", json_schema_extra=TREE)]


def many(kind: Any, most: int = TOKENS) -> Any:
    return Annotated[list[kind], Field(max_length=most)]


class Shape(BaseModel):
    """Fields with a default may be missing: older recordings do not have them."""

    model_config = ConfigDict(strict=True)


class Objective(Shape):
    name: Letters
    title: Letters
    about: Text
    log: bool
    goal: Number = 0


class Start(Shape):
    title: Text
    attack: Letters
    device: Letters
    exposed: Text
    budget: Number
    recorded: bool
    truth: many(Letters)  # type: ignore[valid-type]
    breaks: many(Natural)  # type: ignore[valid-type]
    truth_points: many(Point)  # type: ignore[valid-type]
    background: many(Known, WORDS)  # type: ignore[valid-type]
    variance: many(Percent, 3)  # type: ignore[valid-type]
    whose: many(Letters) = []  # type: ignore[valid-type]
    unreadable: Letters = ""
    objectives: many(Objective, WORDS) = []  # type: ignore[valid-type]


class Candidates(Shape):
    place: Natural
    words: many(Letters, WORDS)  # type: ignore[valid-type]
    distances: many(Number, WORDS)  # type: ignore[valid-type]


class Frame(Shape):
    n: Natural
    step: Natural
    seconds: Number
    left: Number
    tokens: many(Letters)  # type: ignore[valid-type]
    marks: Marks
    sure: many(Percent)  # type: ignore[valid-type]
    others: many(Text)  # type: ignore[valid-type]
    points: many(Point)  # type: ignore[valid-type]
    objective: Number | None
    recover: Percent
    rouge1: Percent
    rougeL: Percent
    stage: Text
    meaning: Letters = ""
    candidates: Candidates | None = None
    growth: Growth = ""
    masks: many(Bits) = []  # type: ignore[valid-type]
    masks_right: many(Percent) = []  # type: ignore[valid-type]


class End(Shape):
    headline: Text
    detail: Text = ""
    certified: bool = False
    exact: bool = False


class Message(Shape):
    frame: Frame
    start: Start | None = None
    end: End | None = None


class Recording(Shape):
    format: Literal["leakscope-run"]
    version: Literal[1]
    messages: Annotated[list[Message], Field(min_length=1, max_length=FRAMES)]


def shapes() -> dict[str, Any]:
    """JSON schemas by name, without what a check does not need."""
    schema = Recording.model_json_schema()
    return {name: _plain(one) for name, one in schema["$defs"].items() if name != "Message"}


def script() -> str:
    """The same as a module for the browser."""
    return (
        "/* Made by `python -m demo.screen.recording_format` from the models there: change those, not this. */\n\n"
        f"export const FRAMES = {FRAMES};\n\nexport const SHAPES = {_written(shapes(), 0)};\n"
    )


def _plain(schema: Any) -> Any:
    """Without titles and defaults; number or null is a number that may be null."""
    if not isinstance(schema, dict):
        return schema
    if "anyOf" in schema:
        kind, _ = schema["anyOf"]
        return {**_plain(kind), "nullable": True}
    if schema.get("type") == "object":
        fields = {name: _plain(one) for name, one in schema["properties"].items()}
        return {"required": schema["required"], "properties": fields}
    told = {name: value for name, value in schema.items() if name not in ("title", "default")}
    return {
        name: [_plain(one) for one in value] if name == "prefixItems" else _plain(value) for name, value in told.items()
    }


def _written(value: Any, indent: int) -> str:
    """As the formatter of assets/ leaves it."""
    inside = " " * (indent + 2)
    if isinstance(value, dict):
        parts = [f"{name}: {_written(one, indent + 2)}" for name, one in value.items()]
    elif isinstance(value, list):
        parts = [_written(one, indent + 2) for one in value]
        short = f"[{', '.join(parts)}]"
        if "\n" not in short and len(short) + indent + len("required: ,") < WIDE:
            return short
    else:
        return json.dumps(value)
    first, last = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([first, *(f"{inside}{part}," for part in parts), " " * indent + last])


if __name__ == "__main__":
    SHAPES.write_text(script(), encoding="utf-8")
