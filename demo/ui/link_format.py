"""Links: the whole experiment and the view as text, written and read by one table of fields.

    to_query({"slice": "key", "layers": [3], "sentence": "Hi!"}, table) -> "?v=1&slice=key&layers=3#sentence=Hi%21"

Whatever a link says, reading it raises nothing: numbers out of range are clamped, anything else that is wrong is left
out, and both are told in notices.

The sentence stands behind the #. This server logs no requests, but proxies log addresses, and Gradio repeats the page's
query string in the address of every event. What stands behind the # is in no address that is sent: the page hands it
over in the body of an event. A sentence in the query string is read too, and moved behind the # at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import Field as Setting
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from demo.attacker.attacks import ATTACKS, current
from demo.client.client import WERE_DEFENSES, Client
from demo.client.client import modern as renamed_defense
from demo.client.defenses import DEFENSES
from demo.settings import link_of, settings_of
from demo.ui.asked import LABELS, WEIGHTS
from demo.ui.choices import CHARACTERS, DEFAULT
from demo.ui.controls import OWN_SETTINGS, TURNS
from demo.ui.limits import Limits
from demo.ui.link_values import Choice, Field, Kind, Name, Number, Numbers, Several, Text
from demo.victim.models import MODELS
from demo.victim.slices import SLICES

VERSION = 1  # of the fields, and of the defaults of those that are left out
MOST_FIELDS = 200
MOST_NOTICES = 8
LONGEST = 12 * CHARACTERS + 8000  # a character of the sentence takes up to 12 in a link
SPEEDS = (0.25, 0.5, 1, 2, 4)  # those of assets/stage/player.js
NOT_OURS = ("__", "utm_")  # how fields begin that Gradio, a host or a newsletter adds
VIEW = ("tab", "projection", "speed", "hide", "present", "lesson")  # fields that are not of the experiment
SWITCH = Choice({"0": False, "1": True})

# What a link may hide, by name, and where it is on the page: hide=label,attack
HIDEABLE = {
    "intro": ".ls-intro",
    "tabs": "#tabs > .tab-wrapper",
    "sentence": "#sentence, #said, .ls-undo",
    "link": "#copy-link",
    "examples": "#preset .ls-chips",
    "label": "#label",
    "training": "#how",
    "model": "#model",
    "weights": "#weights",
    "leak": "#leak, #drawing",
    "defenses": "#defenses",
    "attack": "#attack-name, #about",
    "seconds": "#seconds",
    "advanced": "#advanced",
    "projection": ".ls-stage .ls-map",
    "curves": ".ls-stage .ls-curves",
    "playback": ".ls-stage .ls-player",
}


def fields(limits: Limits, model: str, tabs: Sequence[str] = ()) -> dict[str, Field]:
    """Every field of a link, in the order of writing; defaults and bounds are those of this model."""
    return {
        "model": Field(one_of(limits.models), model, always=True),
        "weights": Field(one_of(WEIGHTS), MODELS[model].default, always=True),
        "scale": Field(Number(1e-3, 1.0), 0.02),
        "slice": Field(one_of(SLICES), DEFAULT.slice, always=True),
        "layers": Field(Numbers(Number(0, MODELS[model].layers - 1, whole=True)), list(DEFAULT.layers), always=True),
        "attack": Field(one_of(ATTACKS), DEFAULT.attack, always=True),
        "label": Field(Choice({**one_of(LABELS).values, "turns": TURNS}), DEFAULT.labels[0], always=True),
        "knows": Field(Several(("length", "label")), ["length", "label"], always=True),
        "seconds": Field(Number(1, limits.seconds), limits.budget, always=True),
        "seed": Field(Number(0, 2**31 - 1, whole=True), DEFAULT.seed, always=True),
        **{link_of(field): of_client(field) for field in settings_of(Client)},
        "defenses": Field(Several(tuple(DEFENSES)), [], always=True),
        **{name: field for defense, kind in DEFENSES.items() for name, field in own(defense, kind())},
        **{name: field for attack in OWN_SETTINGS for name, field in own(attack, ATTACKS[attack])},
        "tab": Field(one_of(tabs), tabs[0] if tabs else None),
        "projection": Field(one_of(("2d", "3d")), "2d"),
        "speed": Field(one_of(SPEEDS), 1),
        "hide": Field(Several(tuple(HIDEABLE)), []),
        "present": Field(SWITCH, False),
        "lesson": Field(Name()),
        "sentence": Field(Text(CHARACTERS), DEFAULT.sentence, always=True),
    }


def one_of(values: Sequence[Any] | Mapping[str, Any]) -> Choice:
    return Choice({f"{value}": value for value in values})


def own(name: str, thing: Any) -> list[tuple[str, Field]]:
    """The settings of an attack or a defense: noise.delta, tag.rate"""
    return [(f"{name}.{f.name}", Field(kind_of(f), getattr(thing, f.name))) for f in settings_of(thing)]


def of_client(field: Setting) -> Field:
    """A field that came later is written where it is not the default, which old links mean."""
    return Field(kind_of(field), field.default, always="in_every_link" in field.metadata)


def kind_of(field: Setting) -> Kind:
    told, default = field.metadata, field.default
    if told["choices"]:
        return one_of(told["choices"])
    return SWITCH if isinstance(default, bool) else Number(told["low"], told["high"], isinstance(default, int))


def to_query(values: Mapping[str, Any], table: Mapping[str, Field]) -> str:
    """?v=1&…#sentence=…: the experiment, and of settings and view what differs from the defaults."""
    said = {
        name: field.kind.write(values[name])
        for name, field in table.items()
        if values.get(name) is not None and (field.always or values[name] != field.default)
    }
    behind = {"sentence": said.pop("sentence")} if "sentence" in said else {}
    parts = [urlencode(part, quote_via=quote, safe=",", errors="replace") for part in ({"v": VERSION, **said}, behind)]
    return "?" + "#".join(filter(None, parts))


def from_query(text: str, limits: Limits, model: str, tabs: Sequence[str] = ()) -> tuple[dict[str, Any], list[str]]:
    """The values that a link gives, and what was wrong with it; a field that it does not give keeps its default."""
    if len(text) > LONGEST:
        return {}, [f"The link has more than {LONGEST} characters, so nothing of it was read."]
    try:
        given = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        return {}, [f"The link has more than {MOST_FIELDS} fields, so nothing of it was read."]
    table = fields(limits, given["model"] if given.get("model") in limits.models else model, tabs)
    values: dict[str, Any] = {}
    notices = []
    given = modern({renamed(name): current(said) if name == "attack" else said for name, said in given.items()})
    if given.pop("v", f"{VERSION}") != f"{VERSION}":
        notices.append(f"The link is of another version: this page reads version {VERSION}.")
    for name, said in given.items():
        if name in table:
            values |= read(name, said, table[name], notices)
        elif not name.startswith(NOT_OURS):
            notices.append(f"{name[:40]!r} is no field of a link.")
    more = len(notices) - MOST_NOTICES
    return values, notices[:MOST_NOTICES] + ([f"And {more} more of this kind."] if more > 0 else [])


def renamed(name: str) -> str:
    """certified.words -> search.words: the field's name of today."""
    attack, dot, setting = name.partition(".")
    return current(attack) + dot + setting


def modern(given: Mapping[str, str]) -> dict[str, str]:
    """defenses=average&average.clients=4 -> companions=3: the client's field of today."""
    found = dict(given)
    for name, (_, setting, _, _) in WERE_DEFENSES.items():
        strength = found.pop(f"{name}.{setting}", "")
        defenses = found.get("defenses", "").split(",")
        if name in defenses:
            field, value = renamed_defense(name, {setting: int(strength)} if strength.isdecimal() else {})
            found |= {"defenses": ",".join(other for other in defenses if other != name), field: f"{value}"}
    return found


def read(name: str, said: str, field: Field, notices: list[str]) -> dict[str, Any]:
    """The field's value, if it can be read."""
    # The sentence is shown in its box only.
    given = f"{name} cannot be taken from the link" if name == "sentence" else f"{name} is {said[:40]!r} in the link"
    try:
        value, fitting = field.kind.read(said)
    except ValueError as problem:
        kept = "it is left out" if field.default is None else f"it stays {field.kind.write(field.default)}"
        notices.append(f"{given}, so {kept}: {problem}.")
        return {}
    if value != fitting:
        became = field.kind.write(fitting) or "empty"
        notices.append(f"{given}, which this page does not take: it became {became}.")
    return {name: fitting}
