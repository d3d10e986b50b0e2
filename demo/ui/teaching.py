"""The tab Lessons, the panel in which a lesson walks through the page, and how its steps set the controls."""

from collections.abc import Mapping
from typing import Any

import gradio as gr

from demo.engine import Experiment
from demo.lessons import for_the_page, lessons
from demo.ui.choices import CHARACTERS, DEFAULT, experiment_from, written
from demo.ui.controls import Controls, control_values
from demo.ui.limits import Limits
from demo.ui.notes import QUICKLY
from demo.ui.surveying import ATTACK_TAB

ABOUT = """
## Lessons
Short walks through recorded runs: nothing is computed, and you can leave at any time. Each step sets the controls, so
that *Attack* then runs what it shows. Whoever leaves finds their own sentence again, under the lesson's settings.
"""


# The panel may come after the click that opens a lesson, as its tab was never shown: it finds the name on window.
PANEL_JS = """
import(new URL('static/assets/lesson/panel.js', document.baseURI)).then(({ Panel }) => {
    window.leakscopeLesson = new Panel(element.querySelector('.ls-lesson'), JSON.parse(props.value), {
        recordings: 'static/assets/recordings/', onStep: (step) => trigger('select', step),
    });
    const asked = window.leakscopeWanted ?? new URLSearchParams(location.search).get('lesson');
    if (asked) window.leakscopeLesson.open(asked);
});
"""
LIST_JS = """
import(new URL('static/assets/lesson/list.js', document.baseURI)).then(({ list }) => {
    list(element.querySelector('.ls-lessons'), JSON.parse(props.value), (name) => {
        window.leakscopeWanted = name;
        window.leakscopeLesson?.open(name);
        trigger('select', name);
    });
});
"""


def lesson_panel() -> gr.HTML:
    """Above the stage; empty until a lesson is opened. `select` tells the step on show, or left."""
    return gr.HTML(
        for_the_page(), html_template='<div class="ls-lesson" hidden></div>', js_on_load=PANEL_JS,
        apply_default_css=False, elem_id="lesson",
    )  # fmt: skip


def lessons_tab(controls: Controls, panel: gr.HTML, tabs: gr.Tabs, limits: Limits) -> None:
    gr.Markdown(ABOUT, elem_classes="ls-intro")
    listed = gr.HTML(
        for_the_page(), html_template='<div class="ls-lessons"></div>', js_on_load=LIST_JS, apply_default_css=False,
        elem_id="lessons",
    )  # fmt: skip
    walks = lessons()

    def taken(event: gr.EventData) -> list[Any]:
        """The step on show -> the controls; who leaves it gets back the sentence that was there before."""
        try:
            step = walks[str(event._data.get("lesson"))].steps[int(event._data.get("step"))]
        except (KeyError, IndexError, ValueError, TypeError):
            raise gr.Error("there is no such step: open a lesson in the tab Lessons", print_exception=False) from None
        opened = [gr.Accordion(open=step.point == name) for name in ("training", "defenses")]
        try:
            values = control_values(experiment_for(step.controls, limits))
        except ValueError:  # this server does not offer its model: the recording plays all the same
            values = [gr.skip() for _ in controls.values]
        own = event._data.get("sentence")
        values[0] = str(own)[:CHARACTERS] if own else values[0]
        return [gr.Tabs(selected=ATTACK_TAB), *opened, *values]

    listed.select(lambda: gr.Tabs(selected=ATTACK_TAB), None, tabs, **QUICKLY)
    panel.select(taken, None, [tabs, controls.how, controls.defending.group, *controls.values], **QUICKLY)


def experiment_for(controls: Mapping[str, Any], limits: Limits) -> Experiment:
    """What a step sets, over the page's own defaults -> a checked experiment."""
    asked: dict[str, Any] = {
        "sentence": DEFAULT.sentence, "labels": DEFAULT.labels, "model": DEFAULT.model, "weights": None, "scale": 0.02,
        "slice": DEFAULT.slice, "layers": DEFAULT.layers, "attack": DEFAULT.attack, "knows_length": True,
        "knows_label": True, "seconds": DEFAULT.seconds, "seed": DEFAULT.seed, "settings": {},
        "dropout": DEFAULT.dropout, "frozen_embeddings": DEFAULT.frozen_embeddings, "defenses": [],
    }  # fmt: skip
    unknown = controls.keys() - asked
    if unknown:
        raise ValueError(f"there is no control {min(unknown)!r}: choose from {', '.join(asked)}")
    asked |= controls
    return experiment_from(limits, **{**asked, "defenses": written(asked["defenses"])})
