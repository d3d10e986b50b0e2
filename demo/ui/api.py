"""The same run for programs: one typed, documented endpoint that streams messages."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import Field
from typing import Any, Literal

import gradio as gr

from demo.attacker.attacks import ATTACKS, OLD_NAMES
from demo.client.client import Client
from demo.screen.messages import Message
from demo.settings import settings_of
from demo.ui.choices import DEFAULT, experiment_from, practised
from demo.ui.computing import told
from demo.ui.limits import Limits, Visitors
from demo.victim.slices import SLICES

ABOUT = """Attacks the gradient of a sentence, or of a batch of them, and streams the reconstruction.

Every message is a dict with the run's id. While a model is loaded and the client takes its step, which is a
moment for small models, messages hold `progress`. Then each holds a `frame` (tokens, marks, confidence, points,
scores); the first ones also hold `start` (the true tokens and points), the last one `end` (the verdict). A
batch's sentences lie end to end, and `breaks` in `start` says where the later ones begin. Numbers out of range
are clamped; anything else that is wrong is refused with the reason.

Args:
"""
HELP = {
    "sentence": "the client's private sentence, or up to 16 of them, one a line; in memory for the run only",
    "model": "which Transformer the client trains",
    "slice": "which part of its gradient is exposed",
    "layers": "of which layers, from 0, where the slice is a choice of layers",
    "attack": "which attack; `best` looks at what is exposed and chooses",
    "labels": "the client's labels, 0 or 1: one for each sentence, or one for all",
    "weights": "pretrained, normal or uniform; None for the model's own default",
    "scale": "sigma of normal, range of uniform weights",
    "knows_length": "whether the attacker is told the number of tokens of each sentence",
    "knows_label": "whether the attacker is told the labels",
    "seconds": "the attack's budget",
    "seed": "of everything that is drawn at random: by the attack, and by the client's dropout",
    "settings": 'changes to the attack\'s own settings, e.g. {"patience": 5}',
    "defenses": 'what the client does to its gradient first, with its strength: ["noise=1e-3", "round=int8", '
    '"sign"]; any of them, applied in this order',
}


def endpoint(limits: Limits, device: str | None, visitors: Visitors) -> Callable[..., Iterator[Message]]:
    """The function that Gradio serves; its signature has a parameter for each field of the client too."""
    parameters = parameters_of(limits)

    def attack(*given: Any, **named: Any) -> Iterator[dict[str, Any]]:
        call = signature.bind(*given, **named)
        call.apply_defaults()
        asked = dict(call.arguments)
        request, defenses, settings = asked.pop("request"), asked.pop("defenses"), asked.pop("settings")
        try:
            experiment = experiment_from(limits, {**asked, "settings": settings or {}, **practised(defenses)}, device)
            visitors.admit(request)
        except ValueError as problem:
            raise gr.Error(str(problem), print_exception=False) from None
        for message in told(experiment):
            if "error" in message:
                raise gr.Error(message["error"], print_exception=False)
            yield message

    signature = inspect.Signature(parameters, return_annotation=Iterator[dict[str, Any]])
    attack.__signature__ = signature  # type: ignore[attr-defined]
    attack.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": signature.return_annotation}
    help = HELP | {field.name: help_of(field) for field in settings_of(Client)}
    attack.__doc__ = ABOUT + "\n".join(f"    {one.name}: {help[one.name]}" for one in parameters if one.name in help)
    return attack


def parameters_of(limits: Limits) -> list[inspect.Parameter]:
    """What a program may give, with types and defaults: Gradio documents and checks them."""
    model = DEFAULT.model if DEFAULT.model in limits.models else limits.models[0]
    defaults: dict[str, tuple[Any, Any]] = {
        "sentence": (str, inspect.Parameter.empty),
        "model": (Literal[limits.models], model),
        "slice": (Literal[tuple(SLICES)], DEFAULT.slice),
        "layers": (list[int], list(DEFAULT.layers)),
        "attack": (Literal[(*ATTACKS, *OLD_NAMES)], DEFAULT.attack),
        "labels": (list[int], list(DEFAULT.labels)),
        "weights": (str | None, None),
        "scale": (float, 0.02),
        "knows_length": (bool, True),
        "knows_label": (bool, True),
        "seconds": (float, limits.budget),
        "seed": (int, 0),
        "settings": (dict[str, Any] | None, None),
        **{field.name: (type_of(field), field.default) for field in settings_of(Client)},
        "defenses": (list[str], []),
        "request": (gr.Request | None, None),
    }
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [
        inspect.Parameter(name, kind, annotation=annotation, default=default)
        for name, (annotation, default) in defaults.items()
    ]


def type_of(field: Field) -> Any:
    told, kind = field.metadata, type(field.default)
    if told["choices"]:
        return Literal[told["choices"]]
    return kind | None if told["unset"] else kind


def help_of(field: Field) -> str:
    """The field's help, and its bounds."""
    told = field.metadata
    if told["choices"]:
        return f"{told['help']}: {', '.join(filter(None, told['choices']))}; empty for the model's own"
    if isinstance(field.default, bool):
        return told["help"]
    unset = ", None for the model's own" if told["unset"] else ""
    return f"{told['help']}; {told['low']:g} to {told['high']:g}{unset}"
