"""What people may ask for: the presets, and the one door from loose values to an `Experiment`.

Page, API, lessons and files all come through `experiment_from`: numbers out of range are clamped, anything else that is
wrong is refused with a message that names it (`demo.ui.asked`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from demo.attacker.attacks import ATTACKS
from demo.client.client import Client, changes_in, of_client
from demo.client.defenses import DEFENSES, parse
from demo.client.secret import MOST_SENTENCES
from demo.runs.engine import Experiment
from demo.settings import fitting, settings_of, shown, with_settings
from demo.ui.asked import asked_of, modernised, validated
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
MORE = (  # that fill a batch up, once all presets are in it
    "The train to the coast leaves at seven.",
    "Her brother repairs old radios.",
    "Nobody told us about the meeting.",
    "The soup needs more salt.",
    "He lost his keys in the snow.",
    "Our neighbours keep bees on the roof.",
    "She wrote a long letter to the bank.",
    "It was dark before the rain stopped.",
)
DEFAULT = Experiment(PRESETS["medical note"], slice="query", layers=(3,), attack="best")
CHARACTERS = 2000  # of the whole text, before it is tokenized
LONGEST = 4  # a batch has at most the tokens of so many sentences of the largest length


def experiment_from(limits: Limits, asked: Mapping[str, Any], device: str | None = None) -> Experiment:
    """Loose values -> a checked experiment. Fields of the client may be missing: their defaults are meant."""
    told = validated(asked_of(limits), modernised(asked))
    check_batch(limits, outline(told.model), told.sentence)
    return Experiment(
        told.sentence,
        tuple(told.labels),
        told.model,
        Weights(told.weights, told.scale) if told.weights else None,
        told.slice,
        tuple(sorted(set(told.layers))) if SLICES[told.slice].of_layer else (),
        told.attack,
        told.knows_length,
        told.knows_label,
        told.seconds,
        seed=told.seed,
        device=device,
        settings=clamped(ATTACKS[told.attack], told.settings),
        client=Client(**{field.name: getattr(told, field.name) for field in settings_of(Client)}),
        defenses=defenses_from(told.defenses),
    )


def practised(texts: Sequence[str]) -> dict[str, Any]:
    """["noise=1e-3", "companions=3"] -> what is asked for: defenses, and fields of the client."""
    if not isinstance(texts, Sequence) or isinstance(texts, str):
        raise ValueError(f'defenses: {shown(texts)} is no list: write ["noise=1e-3"]')
    every = [str(text)[:40] for text in texts]
    found: dict[str, Any] = {"defenses": written([text for text in every if not of_client(text)])}
    for text in filter(of_client, every):
        found |= changes_in(text)
    return found


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
    """The text cut down to so many lines, or filled up with sentences that it does not hold yet."""
    lines = list(Experiment(text).sentences)
    more = [line for line in (*PRESETS.values(), *MORE) if line not in lines]
    return "\n".join((lines + more)[:sentences])


def defenses_from(chosen: Mapping[str, Mapping[str, Any]]) -> tuple[Defense, ...]:
    """{"noise": {"noise_multiplier": 1e-3}} -> (Noise(1e-3),), in the table's order whatever the order of the names."""
    for name in chosen:
        if name not in DEFENSES:
            raise ValueError(f"unknown defense {shown(name)}: choose one of {', '.join(DEFENSES)}")
    plain = [(name, kind()) for name, kind in DEFENSES.items() if name in chosen]
    return tuple(with_settings(defense, name, clamped(defense, chosen[name])) for name, defense in plain)


def written(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """["noise=1e-3"] -> {"noise": {"noise_multiplier": 1e-3}}"""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, _, value = text.partition("=")
        strength = settings_of(DEFENSES[name])[:1] if name in DEFENSES else ()
        try:
            found[name] = {strength[0].name: float(value)}  # a number, which may be out of range
        except (IndexError, ValueError):
            defense = parse(text)
            found[name] = {field.name: getattr(defense, field.name) for field in strength}
    return found


def clamped(thing: Any, settings: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The settings that differ from an attack's or a defense's own, with numbers brought between their bounds."""
    known, changed = {f.name: f for f in settings_of(thing)}, []
    for name, value in settings.items():
        if name in known and isinstance(value, int | float):
            value = fitting(known[name], value)
        if value != getattr(thing, name, None):
            changed.append((name, value))  # an unknown name is refused by `with_settings`, which lists the known ones
    return tuple(changed)
