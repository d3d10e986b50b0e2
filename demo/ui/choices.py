"""What people may ask for: the presets, and the one door from loose values to an `Experiment`.

Page and API both come through `experiment_from`: numbers out of range are clamped, anything else that is wrong is
refused with a message that names it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from demo.attacker.attacks import ATTACKS, current
from demo.client.defenses import DEFENSES, parse
from demo.client.secret import MOST_DROPOUT, MOST_SENTENCES
from demo.runs.engine import Experiment
from demo.settings import settings_of, with_settings
from demo.ui.limits import Limits
from demo.victim.gradients import Defense
from demo.victim.models import Model, Weights, outline
from demo.victim.slices import SLICES

PRESETS = {
    "medical note": "The patient was diagnosed with diabetes last week.",
    "password": "My new password is blue horse seven.",
    "address": "Send it to 42 Garden Street, second floor.",
    "love letter": "I think of you whenever it rains.",
    "plain sentence": "The cat that the children fed sleeps upstairs.",
    "plan": "We meet behind the old station at nine.",
    "debt": "Tom still owes my sister forty euros.",
    "recipe": "Grandmother adds a little pepper to her chocolate.",
}
DEFAULT = Experiment(PRESETS["medical note"], slice="query", layers=(3,), attack="best")
KINDS = {str: "text", Sequence: "list", Mapping: "dict"}
WEIGHTS = ("pretrained", "normal", "uniform")
LABELS = (0, 1)
CHARACTERS = 2000  # of the whole text, before it is tokenized
LONGEST = 4  # a batch has at most the tokens of so many sentences of the largest length


def experiment_from(
    limits: Limits,
    sentence: str,
    labels: Sequence[int],
    model: str,
    weights: str | None,
    scale: float,
    slice: str,
    layers: Sequence[int],
    attack: str,
    knows_length: bool,
    knows_label: bool,
    seconds: float,
    seed: int,
    settings: Mapping[str, Any],
    dropout: float | None,
    frozen_embeddings: bool,
    defenses: Mapping[str, Mapping[str, Any]],
    device: str | None = None,
) -> Experiment:
    """Loose values -> a checked experiment."""
    kinds = (("sentence", sentence, str), ("labels", labels, Sequence), ("layers", layers, Sequence))
    for name, value, kind in (*kinds, ("settings", settings, Mapping), ("defenses", defenses, Mapping)):
        if not isinstance(value, kind) or (kind is Sequence and isinstance(value, str)):
            raise ValueError(f"{name}: {shown(value)} is no {KINDS[kind]}")
    attack = current(attack) if isinstance(attack, str) else attack
    for name, value, table in (("model", model, limits.models), ("slice", slice, SLICES), ("attack", attack, ATTACKS)):
        if not isinstance(value, str) or value not in table:
            raise ValueError(f"unknown {name} {shown(value)}: choose one of {', '.join(table)}")
    if weights and weights not in WEIGHTS:
        raise ValueError(f"unknown weights {shown(weights)}: choose one of {', '.join(WEIGHTS)}")
    for label in labels:
        if label not in LABELS:
            raise ValueError(f"label {shown(label)} does not exist: choose {LABELS[0]} or {LABELS[1]}")
    for layer in layers:
        if not isinstance(layer, int | float) or layer not in range(-99, 99):
            raise ValueError(f"layer {shown(layer)} does not exist: give whole numbers from 0")
    check_batch(limits, outline(model), sentence)
    chosen = tuple(sorted({int(layer) for layer in layers})) if SLICES[slice].of_layer else ()
    return Experiment(
        sentence,
        tuple(int(label) for label in labels),
        model,
        Weights(weights, clamp(scale, 1e-3, 1.0)) if weights else None,
        slice,
        chosen,
        attack,
        bool(knows_length),
        bool(knows_label),
        clamp(seconds, 1.0, limits.seconds),
        seed=int(clamp(seed, 0, 2**31 - 1)),
        device=device,
        settings=clamped(ATTACKS[attack], settings),
        dropout=None if dropout is None else clamp(dropout, 0.0, MOST_DROPOUT),
        frozen_embeddings=bool(frozen_embeddings),
        defenses=defenses_from(defenses),
    )


def check_batch(limits: Limits, model: Model, text: str) -> list[list[str]]:
    """The tokens of each sentence, one sentence a line; or an error that says what is wrong with them."""
    if len(text) > CHARACTERS:
        raise ValueError(f"the text has {len(text)} characters: give at most {CHARACTERS}")
    lines = Experiment(text).sentences
    if len(lines) > MOST_SENTENCES:
        raise ValueError(f"the batch has {len(lines)} sentences: give at most {MOST_SENTENCES}, one a line")
    if model.reads:
        batch = [model.tokens(model.inner(model.encode(line))) for line in lines or [text]]
    else:  # its tokenizer is yet to be fetched: words are nearly as many
        batch = [line.split() for line in lines]
    for n, tokens in enumerate(batch, 1):
        if len(tokens) > limits.tokens:
            which = "the sentence" if len(batch) == 1 else f"sentence {n}"
            raise ValueError(f"{which} has {len(tokens)} tokens: this page takes at most {limits.tokens}")
    total, most = sum(map(len, batch)), LONGEST * limits.tokens
    if total > most:
        raise ValueError(f"the batch has {total} tokens: this page takes at most {most}")
    return batch


def resized(text: str, sentences: int) -> str:
    """The text cut down to so many lines, or filled up with presets that it does not hold yet."""
    lines = list(Experiment(text).sentences)
    more = [preset for preset in PRESETS.values() if preset not in lines]
    return "\n".join((lines + more)[:sentences])


def defenses_from(chosen: Mapping[str, Mapping[str, Any]]) -> tuple[Defense, ...]:
    """{"noise": {"noise_multiplier": 1e-3}} -> (Noise(1e-3),), in the table's order whatever the order of the names."""
    for name in chosen:
        if name not in DEFENSES:
            raise ValueError(f"unknown defense {shown(name)}: choose one of {', '.join(DEFENSES)}")
        if not isinstance(chosen[name], Mapping):
            raise ValueError(f"the settings of {name} are {shown(chosen[name])}: give a dict")
    plain = [(name, kind()) for name, kind in DEFENSES.items() if name in chosen]
    return tuple(with_settings(defense, name, clamped(defense, chosen[name])) for name, defense in plain)


def written(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """["noise=1e-3"] -> {"noise": {"noise_multiplier": 1e-3}}"""
    if not isinstance(texts, Sequence) or isinstance(texts, str):
        raise ValueError(f'defenses: {shown(texts)} is no list: write ["noise=1e-3"]')
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, _, value = str(text)[:40].partition("=")
        strength = settings_of(DEFENSES[name])[:1] if name in DEFENSES else ()
        try:
            found[name] = {strength[0].name: float(value)}  # a number, which may be out of range
        except (IndexError, ValueError):
            defense = parse(str(text)[:40])
            found[name] = {field.name: getattr(defense, field.name) for field in strength}
    return found


def clamped(thing: Any, settings: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The settings that differ from an attack's or a defense's own, with numbers brought between their bounds."""
    known, changed = {f.name: f for f in settings_of(thing)}, []
    for name, value in settings.items():
        default = getattr(thing, name, None)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name in known and number and not known[name].metadata["choices"]:
            bounds, kind = known[name].metadata, int if isinstance(default, int) else float
            value = kind(clamp(value, bounds["low"], bounds["high"]))
        if value != default:
            changed.append((name, value))  # an unknown name is refused by `with_settings`, which lists the known ones
    return tuple(changed)


def clamp(value: float, low: float, high: float) -> float:
    if not isinstance(value, int | float) or value != value:
        raise ValueError(f"{shown(value)} is not a number: give one from {low:g} to {high:g}")
    return min(max(value, low), high)


def shown(value: Any) -> str:
    """A wrong value in an error: enough of it to find it."""
    text = repr(value) if not isinstance(value, int | float) else str(value)
    return text if len(text) <= 42 else f"{text[:40]}…"
