"""The same run for programs: one typed, documented endpoint that streams messages."""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import gradio as gr

from demo.attacker.attacks import ATTACKS, OLD_NAMES
from demo.screen.messages import Message
from demo.ui.choices import DEFAULT, experiment_from, written
from demo.ui.computing import told
from demo.ui.limits import Limits, Visitors
from demo.victim.slices import SLICES


def endpoint(limits: Limits, device: str | None, visitors: Visitors) -> Callable[..., Iterator[Message]]:
    default = DEFAULT.model if DEFAULT.model in limits.models else limits.models[0]

    def attack(
        sentence: str,
        model: Literal[tuple(limits.models)] = default,  # type: ignore[valid-type]
        slice: Literal[tuple(SLICES)] = DEFAULT.slice,  # type: ignore[valid-type]
        layers: list[int] = list(DEFAULT.layers),  # noqa: B006 (gradio reads the default, nobody changes it)
        attack: Literal[(*ATTACKS, *OLD_NAMES)] = DEFAULT.attack,  # type: ignore[valid-type]
        labels: list[int] = list(DEFAULT.labels),  # noqa: B006
        weights: str | None = None,
        scale: float = 0.02,
        knows_length: bool = True,
        knows_label: bool = True,
        seconds: float = limits.budget,
        seed: int = 0,
        settings: dict[str, Any] | None = None,
        dropout: float | None = DEFAULT.dropout,
        frozen_embeddings: bool = DEFAULT.frozen_embeddings,
        defenses: list[str] = [],  # noqa: B006
        request: gr.Request | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Attacks the gradient of a sentence, or of a batch of them, and streams the reconstruction.

        Every message is a dict with the run's id. While a model is loaded and the client takes its step, which is a
        moment for small models, messages hold `progress`. Then each holds a `frame` (tokens, marks, confidence, points,
        scores); the first ones also hold `start` (the true tokens and points), the last one `end` (the verdict). A
        batch's sentences lie end to end, and `breaks` in `start` says where the later ones begin. Numbers out of range
        are clamped; anything else that is wrong is refused with the reason.

        Args:
            sentence: the client's private sentence, or up to 8 of them, one a line; in memory for the run only
            model: which Transformer the client trains
            slice: which part of its gradient is exposed
            layers: of which layers, from 0, where the slice is a choice of layers
            attack: which attack; `best` looks at what is exposed and chooses
            labels: the client's labels, 0 or 1: one for each sentence, or one for all
            weights: pretrained, normal or uniform; None for the model's own default
            scale: sigma of normal, range of uniform weights
            knows_length: whether the attacker is told the number of tokens of each sentence
            knows_label: whether the attacker is told the labels
            seconds: the attack's budget
            seed: of everything that is drawn at random: by the attack, and by the client's dropout
            settings: changes to the attack's own settings, e.g. {"patience": 5}
            dropout: the rate with which the client trains, up to 0.4: 0 is eval mode, None is the model's own rate
            frozen_embeddings: whether the client leaves its embeddings untrained, and so shares no gradient of them
            defenses: what the client does to its gradient first, with its strength: ["noise=1e-3", "prune=0.9",
                "mask=0.5", "round=int8", "sign"]; any of them, applied in this order
        """
        try:
            experiment = experiment_from(
                limits,
                sentence,
                labels,
                model,
                weights,
                scale,
                slice,
                layers,
                attack,
                knows_length,
                knows_label,
                seconds,
                seed,
                settings or {},
                dropout,
                frozen_embeddings,
                written(defenses),
                device,
            )
            visitors.admit(request)
        except ValueError as problem:
            raise gr.Error(str(problem), print_exception=False) from None
        for message in told(experiment):
            if "error" in message:
                raise gr.Error(message["error"], print_exception=False)
            yield message

    return attack
