"""The tab Lessons, the panel in which a lesson walks through the page, and how its steps set the controls."""

import json
from collections.abc import Mapping
from typing import Any

import gradio as gr

from demo.runs.engine import Experiment
from demo.screen.lessons import for_the_page, lessons
from demo.ui.choices import DEFAULT, experiment_from, practised
from demo.ui.controls import Controls, control_values
from demo.ui.limits import Limits
from demo.ui.notes import QUICKLY
from demo.ui.survey_tabs import ATTACK_TAB

ABOUT = """
## Lessons
Short walks through recorded runs: nothing is computed, and you can leave at any time. Each step sets the controls, so
that *Attack* then runs what it shows. Whoever leaves finds their own sentence and settings again.
"""


# The panel may come after the click that opens a lesson, as its tab was never shown: it finds the name on window.
PANEL_JS = """
import(new URL('static/assets/lesson/panel.js', document.baseURI)).then(({ Panel }) => {
    window.leakscopeLesson = new Panel(element.querySelector('.ls-lesson'), JSON.parse(props.value), {
        recordings: 'static/assets/recordings/', onOpen: () => trigger('expand'), onStep: () => trigger('select'),
    });
    const linked = new URLSearchParams(location.search).get('lesson');
    if (window.leakscopeWanted) window.leakscopeLesson.open(window.leakscopeWanted);
    else if (linked) window.leakscopeLesson.openLinked(linked);
});
"""
STEP_JS = "() => JSON.stringify(window.leakscopeLesson.step)"  # as it is once the answer to the step before has come
KEEP_JS = "(...values) => { window.leakscopeLesson.keep(values); }"
RESTORE_JS = "() => window.leakscopeLesson.restored(DRAWING)"
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
    """Above the stage; empty until a lesson is opened. `select` tells that there is another step, or none any more."""
    return gr.HTML(
        for_the_page(),
        html_template='<div class="ls-lesson" hidden></div>',
        js_on_load=PANEL_JS,
        apply_default_css=False,
        elem_id="lesson",
    )


def lessons_tab(controls: Controls, panel: gr.HTML, tabs: gr.Tabs, limits: Limits) -> None:
    gr.Markdown(ABOUT, elem_classes="ls-intro")
    listed = gr.HTML(
        for_the_page(),
        html_template='<div class="ls-lessons"></div>',
        js_on_load=LIST_JS,
        apply_default_css=False,
        elem_id="lessons",
    )
    walks = lessons()

    def taken(told: str) -> list[Any]:
        """The step on show -> the controls."""
        try:
            asked = json.loads(told)
            if asked is None:  # left: the page itself knows what was there before
                return [gr.skip() for _ in outputs]
            step = walks[asked["lesson"]].steps[int(asked["step"])]
        except (KeyError, IndexError, ValueError, TypeError):
            raise gr.Error("there is no such step: open a lesson in the tab Lessons", print_exception=False) from None
        opened = [gr.Accordion(open=step.point == name) for name in ("training", "defenses")]
        try:
            values = control_values(experiment_for(step.controls, limits))
        except ValueError:  # this server does not offer its model: the recording plays all the same
            values = [gr.skip() for _ in controls.values]
        return [gr.Tabs(selected=ATTACK_TAB), *opened, *values]

    set_by_steps = [controls.how, controls.defending.group, *controls.values]
    outputs = [tabs, *set_by_steps]
    step = gr.Textbox(visible=False)
    listed.select(lambda: gr.Tabs(selected=ATTACK_TAB), None, tabs, **QUICKLY)
    panel.expand(None, controls.values, js=KEEP_JS, api_visibility="private")
    answered = panel.select(taken, step, outputs, js=STEP_JS, **QUICKLY)
    restore = RESTORE_JS.replace("DRAWING", str(controls.values.index(controls.drawing)))
    answered.then(None, None, set_by_steps, js=restore, api_visibility="private")


def experiment_for(controls: Mapping[str, Any], limits: Limits) -> Experiment:
    """What a step sets, over the page's own defaults -> a checked experiment."""
    asked: dict[str, Any] = {
        "sentence": DEFAULT.sentence,
        "labels": DEFAULT.labels,
        "model": DEFAULT.model,
        "weights": None,
        "scale": 0.02,
        "slice": DEFAULT.slice,
        "layers": DEFAULT.layers,
        "attack": DEFAULT.attack,
        "knows_length": True,
        "knows_label": True,
        "seconds": limits.budget,
        "seed": DEFAULT.seed,
        "settings": {},
        **vars(DEFAULT.client),
        "defenses": [],
    }
    unknown = controls.keys() - asked
    if unknown:
        raise ValueError(f"there is no control {min(unknown)!r}: choose from {', '.join(asked)}")
    asked |= controls
    return experiment_from(limits, asked | practised(asked["defenses"]))
