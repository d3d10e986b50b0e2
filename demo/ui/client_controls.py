"""How the client trains, on the page: one control for each of its fields, made from what the field says of itself."""

from collections.abc import Sequence
from dataclasses import Field
from typing import Any

import gradio as gr

from demo.client.client import Client
from demo.settings import fitting, link_of, settings_of, with_settings
from demo.ui.components import control_for
from demo.victim.models import outline


def client_controls(model: str, client: Client) -> dict[str, Any]:
    """The controls by the names of their fields; a choice that the model does not have is hidden."""
    return {
        field.name: control_for(
            field, getattr(client, field.name), elem_id=link_of(field), visible=offered(field, model)
        )
        for field in settings_of(Client)
    }


def offered(field: Field, model: str) -> bool:
    """Whether there is anything to choose."""
    return "offered" not in field.metadata or len(field.metadata["offered"](outline(model).net)) > 1


def connect_client(controls: dict[str, Any], model: gr.Dropdown, label: gr.Radio, quick: dict[str, Any]) -> None:
    """Another model may offer other choices; a label matters only where one is trained on."""
    task = controls["task"]
    gr.on([model.change, task.change], _labelled, [model, task], label, **quick)
    for field in settings_of(Client):
        if "offered" in field.metadata:
            model.change(_offering(field), model, controls[field.name], **quick)


def client_from(values: Sequence[Any]) -> Client:
    """The controls' values, in the order of the fields -> the client."""
    named = zip(settings_of(Client), values, strict=True)
    return with_settings(Client(), "the client", [(field.name, fitting(field, value)) for field, value in named])


def _labelled(model: str, task: str) -> Any:
    chosen = outline(model)
    known = task if task in chosen.net.tasks else ""  # the other model's, until that control has followed
    return gr.update(visible=chosen.told_by(known).net.labels > 0)


def _offering(field: Field) -> Any:
    def told(model: str) -> Any:
        return gr.update(visible=True) if offered(field, model) else gr.update(visible=False, value=field.default)

    return told
