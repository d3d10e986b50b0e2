"""Guided walks through recorded runs, as data: assets/lessons/*.json; and the words of the page: assets/glossary.json.

A lesson is a title, a line about it, and steps:

    {"title": "Everything leaks", "about": "…", "steps": [
        {"text": "…", "controls": {"slice": "all"}, "point": "tiles", "recording": "lesson-all", "frame": "play"}]}

    text       what is said. {gradient} or {gradients|gradient} is a term of the glossary, [TAG](tag) a link of LINKS
    controls   how the page's own defaults are changed, by the names that the API gives them
    point      the part of the screen that it talks of, a name of PLACES
    recording  what is on the stage, a name in assets/recordings
    frame      "first", "last", a number, or "play": from the first on

A step that leaves out controls or recording keeps those of the step before. Files are in the order of their names.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).parents[2] / "assets"
PLACES = {  # the parts of the screen that a step can point at -> where they are
    "sentence": "#sentence",
    "button": "#go",
    "training": "#how",
    "drawing": "#drawing",
    "share": "#drawing .ls-exposure",
    "defenses": "#defenses",
    "attack": "#attack-name",
    "title": "#stage .ls-head",
    "tiles": "#stage .ls-tilebox",
    "status": "#stage .ls-status",
    "tree": "#stage .ls-prefixes",
    "map": "#stage .ls-map",
    "strip": "#stage .ls-strip",
    "curves": "#stage .ls-curves",
    "player": "#stage .ls-player",
    "verdict": "#stage .ls-verdict",
}
LINKS = {
    "federated": "https://arxiv.org/abs/1602.05629",
    "dp-sgd": "https://arxiv.org/abs/1607.00133",
    "tag": "https://arxiv.org/abs/2103.06819",
    "dager": "https://arxiv.org/abs/2405.15586",
    "forest": "https://arxiv.org/abs/2406.00999",
    "grab": "https://arxiv.org/abs/2507.21198",
    "results": "#results",  # our own tables, in the tab of that name
}
MARKED = re.compile(r"\{([^{}|]+)(?:\|([^{}]+))?\}|\[([^\[\]]+)\]\(([^()]+)\)")


@dataclass(frozen=True)
class Part:
    """A stretch of a text: plain, or a term of the glossary, or a link."""

    words: str
    term: str = ""
    link: str = ""


@dataclass(frozen=True)
class Step:
    text: tuple[Part, ...]
    controls: dict[str, Any]
    point: str
    recording: str
    frame: str | int


@dataclass(frozen=True)
class Lesson:
    name: str
    title: str
    about: str
    steps: tuple[Step, ...]


def glossary() -> dict[str, str]:
    return json.loads((ASSETS / "glossary.json").read_text(encoding="utf-8"))


def lessons() -> dict[str, Lesson]:
    """All lessons in their order; a file that cannot be right is refused with what is wrong in it."""
    terms, found = glossary(), {}
    for file in sorted((ASSETS / "lessons").glob("*.json")):
        name = file.stem.partition("-")[2]  # 1-gradient.json: the number gives the order
        told = json.loads(file.read_text(encoding="utf-8"))
        try:
            steps = tuple(steps_of(told["steps"], terms))
        except ValueError as problem:
            raise ValueError(f"{file.name}: {problem}") from None
        found[name] = Lesson(name, told["title"], told["about"], steps)
    return found


def steps_of(told: list[dict[str, Any]], terms: dict[str, str]) -> Iterator[Step]:
    kept: dict[str, Any] = {"controls": {}}
    for step in told:
        kept = {**kept, **step}
        if kept["point"] not in PLACES:
            raise ValueError(f"there is no place {kept['point']!r} to point at: choose one of {', '.join(PLACES)}")
        if not (ASSETS / "recordings" / f"{kept['recording']}.json").exists():
            raise ValueError(f"there is no recording {kept['recording']!r} in assets/recordings")
        yield Step(**{**kept, "text": tuple(parts_of(step["text"], terms))})


def parts_of(text: str, terms: dict[str, str]) -> Iterator[Part]:
    """A {gradient} is [shared](federated). -> A, the term gradient, is, a link, and a full stop."""
    end = 0
    for mark in MARKED.finditer(text):
        if mark.start() > end:
            yield Part(text[end : mark.start()])
        words, term, linked, link = mark.groups()
        if words and (term or words) not in terms:
            raise ValueError(f"{term or words!r} is not in the glossary")
        if linked and link not in LINKS:
            raise ValueError(f"there is no link {link!r}: choose one of {', '.join(LINKS)}")
        yield Part(words, term=term or words) if words else Part(linked, link=LINKS[link])
        end = mark.end()
    if end < len(text):
        yield Part(text[end:])


def for_the_page() -> str:
    """Everything that the scripts read, as JSON."""
    told = {name: asdict(lesson) for name, lesson in lessons().items()}
    return json.dumps({"lessons": told, "glossary": glossary(), "places": PLACES}, ensure_ascii=False)
