"""How a client trains, field by field. What people see of a field is made from what is said of it here: its control,
its name in links, the API's parameter, the command line's option, its column in rows and its words in titles.

    Client(dropout=0.1, companions=3).told(model.net)   # ["dropout 0.1", "companions 3"]
    with_text(Client(), "companions=3")                 # Client(companions=3)
    with_text(Client(), "average=4")                    # the same, as it was written when that was a defense
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, replace
from typing import Any

from demo.client.secret import MOST_COMPANIONS, MOST_DROPOUT
from demo.settings import label_of, read, setting, settings_of, with_settings, write
from demo.victim.anatomy import Anatomy


def _tasks_of(net: Anatomy) -> tuple[str, ...]:
    return net.tasks


@dataclass(frozen=True)
class Client:
    """The plainest: one client in eval mode that trains everything on its model's own task.

    Links from before a field was there say nothing of it: the default of a field may never change. `offered` says which
    of a field's choices a network has; `strengths` make it one of the things that a sweep can make stronger.
    """

    dropout: float | None = setting(
        0.0,
        "the client's rate: 0 is eval mode, most models are trained with 0.1",
        0,
        MOST_DROPOUT,
        label="Dropout",
        step=0.05,
        unset="own",
        in_every_link=True,
    )
    frozen_embeddings: bool = setting(
        False,
        "the client does not train its embeddings, so their gradient is not shared",
        label="Embeddings frozen",
        link="frozen",
        in_every_link=True,
    )
    companions: int = setting(
        0,
        "other clients, each with a sentence of our own making; only the mean of all gradients is seen",
        0,
        MOST_COMPANIONS,
        label="Companions",
        step=1,
        strengths=tuple(range(1, MOST_COMPANIONS + 1)),
    )
    task: str = setting(
        "",
        "what the loss asks for; not every model has both",
        choices=("", "next-word", "label"),
        label="Task",
        offered=_tasks_of,
    )

    def settled(self, net: Anatomy) -> "Client":
        """The same with the model's own rate, where that is what was asked for."""
        return replace(self, dropout=net.dropout) if self.dropout is None else self

    def told(self, net: Anatomy) -> list[str]:
        """How it trains, as far as it is not the plainest way."""
        own = self.settled(net)
        named = [(field, getattr(own, field.name)) for field in settings_of(self)]
        return [_words(field, value) for field, value in named if value != field.default]

    def strengthened(self) -> list[tuple[str, Any]]:
        """What it does that a sweep can make stronger, as `with_text` reads it, and how strong it is."""
        named = [(field, getattr(self, field.name)) for field in settings_of(self) if "strengths" in field.metadata]
        return [(f"{field.name}={write(field, value)}", value) for field, value in named if value != field.default]


PLAIN = Client()

# What was a defense and is a field today: the field, the setting that it was, its default, and what it means today.
WERE_DEFENSES: Mapping[str, tuple[str, str, int, Callable[[Any], Any]]] = {
    "average": ("companions", "clients", 4, lambda clients: clients - 1),
}


def modern(name: str, settings: Mapping[str, Any]) -> tuple[str, Any]:
    """average, {"clients": 4} -> companions, 3"""
    field, setting, default, today = WERE_DEFENSES[name]
    value = settings.get(setting, default)
    return field, today(value) if isinstance(value, int | float) else value


def of_client(text: str) -> bool:
    """Whether companions=3, or an older spelling, is of a client and no defense."""
    name = text.partition("=")[0]
    return name in WERE_DEFENSES or name in {field.name for field in settings_of(Client)}


def changes_in(text: str) -> dict[str, Any]:
    """companions=3 -> {"companions": 3}; numbers out of bounds are left to whoever takes them."""
    name, _, value = text.partition("=")
    if name in WERE_DEFENSES:
        setting = WERE_DEFENSES[name][1]
        try:
            return dict([modern(name, {setting: int(float(value))} if value else {})])
        except (ValueError, OverflowError):
            raise ValueError(f"the strength of {name} is {value[:40]!r}: give a whole number") from None
    (field,) = (field for field in settings_of(Client) if field.name == name)
    return {name: read(field, value)}


def with_text(client: Client, text: str) -> Client:
    """The client with one field as it is written."""
    return with_settings(client, "the client", list(changes_in(text).items()))


def _words(field: Field, value: Any) -> str:
    title = label_of(field).lower()
    return title if isinstance(value, bool) else f"{title} {write(field, value)}"
