"""Links on the page: opening one sets the controls, and a button copies one. Neither starts an attack."""

import json
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import gradio as gr

from demo.attacker.attacks import ATTACKS
from demo.client.client import Client
from demo.client.defenses import DEFENSES
from demo.settings import link_of, settings_of
from demo.ui.choices import DEFAULT
from demo.ui.client_controls import client_from
from demo.ui.controls import OWN_SETTINGS, Controls, experiment_of, weight_menu
from demo.ui.drawing import chosen_in, drawing_of
from demo.ui.limits import Limits
from demo.ui.link_format import HIDEABLE, VIEW, fields, from_query, to_query
from demo.ui.notes import QUICKLY

SIMPLE = (  # the controls before those of defenses and attacks, in the order of `Controls.values`
    "sentence",
    "label",
    "model",
    "weights",
    "scale",
    "drawing",
    "attack",
    "knows",
    "seconds",
    "seed",
    *(link_of(field) for field in settings_of(Client)),
)

# Runs before Gradio asks anything of the server. A link that differs only behind the # does not load the page anew, so
# that what was typed and what was run stay within reach.
OPENING_JS = """(() => {
    const read = () => {
        const given = new URLSearchParams(location.search), behind = new URLSearchParams(location.hash.slice(1));
        if (given.has('sentence')) {
            if (!behind.has('sentence')) behind.set('sentence', given.get('sentence'));
            given.delete('sentence');
            history.replaceState(null, '', `${location.pathname}?${given}#${behind}`);
        }
        const link = new URLSearchParams([...given, ...behind]), { documentElement: root } = document;
        window.leakscopeView = { ...Object.fromEntries(link), link: link.toString(), sentence: undefined };
        root.dataset.hide = (link.get('hide') ?? '').replaceAll(',', ' ');
        root.classList.toggle('ls-present', link.get('present') === '1');
    };
    read();
    addEventListener('hashchange', () => {
        read();
        window.leakscopeLinks?.follow();
    });
})();"""
OPENED_JS = "() => window.leakscopeView.link"
COPY_JS = """(view, ...values) => {
    window.leakscopeLinks.copy();
    return [window.leakscopeLinks.view(), ...values];
}"""


def opening() -> str:
    """For the page's head: what a link says of the view holds from the first moment on."""
    rules = [f'[data-hide~="{name}"] :is({place}) {{ display: none !important; }}' for name, place in HIDEABLE.items()]
    return f"<script>{OPENING_JS}</script><style>{' '.join(rules)}</style>"


def connect_links(
    page: gr.Blocks, controls: Controls, tabs: gr.Tabs, limits: Limits, model: str, device: str | None
) -> None:
    places = [f"{tab.id}" for tab in tabs.children if isinstance(tab, gr.Tab)]
    link = gr.Textbox(visible=False)

    def opened(text: str) -> list[Any]:
        values, notices = from_query(text or "", limits, model, places)
        tab = gr.Tabs(selected=values["tab"]) if "tab" in values else gr.skip()
        return [*updates(values, model), tab, json.dumps({"notices": notices})]

    def followed(text: str) -> list[Any]:
        """A link opened over the page: what it does not say is as in a fresh page, except for the sentence."""
        values, notices = from_query(text or "", limits, model, places)
        table = fields(limits, values.get("model", model), places)
        plain = {name: field.default for name, field in table.items() if name not in (*VIEW, "sentence")}
        tab = gr.Tabs(selected=values.get("tab", places[0]))
        answer = {"notices": notices, "now": secrets.token_hex(4)}
        return [*updates(plain | values, model), tab, json.dumps(answer)]

    def copied(view: str, *values: Any) -> str:
        """Wrong values make no link: what is wrong with them is said instead."""
        answer = {"now": secrets.token_hex(4)}  # the same answer twice is an answer too
        try:
            experiment_of(values, limits, device)
            seen, _ = from_query(view, limits, model, places)
            said = {**named(values), **seen}
            answer["link"] = to_query(said, fields(limits, said["model"], places))
        except ValueError as problem:
            answer["problem"] = f"{problem}"
        return json.dumps(answer)

    page.load(opened, link, [*controls.values, tabs, controls.links], js=OPENED_JS, **QUICKLY)
    controls.links.select(followed, link, [*controls.values, tabs, controls.links], js=OPENED_JS, **QUICKLY)
    controls.copy.click(copied, [link, *controls.values], controls.links, js=COPY_JS, **QUICKLY)


def named(values: Sequence[Any]) -> dict[str, Any]:
    """The controls' values by the names of a link's fields."""
    rest: Iterator[Any] = iter(values)
    found = {name: next(rest) for name in SIMPLE}
    found["slice"], layers = chosen_in(found.pop("drawing"))
    found |= {"layers": layers} if layers else {}  # some slices are of no layer
    found["defenses"] = []
    for name, kind in DEFENSES.items():
        found["defenses"] += [name] if next(rest) else []
        found |= {f"{name}.{field.name}": next(rest) for field in settings_of(kind)}
    return found | {name: next(rest) for name in own_settings()}


def updates(values: dict[str, Any], model: str) -> list[Any]:
    """A link's values for all controls, in their order; those of which the link says nothing stay as they are."""
    plain = {"model": model, "weights": None, "slice": DEFAULT.slice, "layers": DEFAULT.layers}
    whole = plain | values
    found = {name: values.get(name, gr.skip()) for name in SIMPLE}
    if "model" in values or "weights" in values:
        found["weights"] = weight_menu(whole["model"], whole["weights"])
    trained = {field: link_of(field) for field in settings_of(Client)}
    if {"model", "slice", "layers", *trained.values()} & values.keys():
        client = client_from([values.get(link, field.default) for field, link in trained.items()])
        shown = whole["model"], whole["slice"], whole["layers"], client
        found["drawing"] = drawing_of(*shown, given=secrets.token_hex(4))
    answer = list(found.values())
    for name, kind in DEFENSES.items():
        answer.append(name in values["defenses"] if "defenses" in values else gr.skip())
        answer += [values.get(f"{name}.{field.name}", gr.skip()) for field in settings_of(kind)]
    return answer + [values.get(name, gr.skip()) for name in own_settings()]


def own_settings() -> list[str]:
    return [f"{name}.{field.name}" for name in OWN_SETTINGS for field in settings_of(ATTACKS[name])]
