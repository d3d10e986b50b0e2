"""The pictures that Gradio has no component for, around the scripts in assets/.

Their templates are constant and their values are JSON strings that only the scripts read: Gradio would execute what
stands in a value that a template shows, and re-drawing a gr.Plot for each frame is two hundred times slower.
"""

import json
from collections.abc import Mapping
from dataclasses import Field
from pathlib import Path
from typing import Any

import gradio as gr
import plotly
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from demo.settings import label_of

OWN = "the model's own"  # what an empty choice stands for
ASSETS = Path(__file__).parents[2] / "assets"
STYLES = ("page.css", "stage.css", "stage/tree.css", "survey.css", "lesson.css", "compare.css", "tables.css")
PLOTLY_JS = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


# Functions rather than subclasses of gr.HTML: for a subclass, gradio writes a .pyi file beside this one at each start.
def stage(**kwargs: Any) -> gr.HTML:
    """The attacker's side: tiles, projection, curves, playback and verdict. Its value is the latest message."""
    return gr.HTML(
        "", html_template='<div class="ls-stage"></div>', js_on_load=STAGE_JS, apply_default_css=False, **kwargs
    )


def drawing(value: str, **kwargs: Any) -> gr.HTML:
    """The model as blocks to click: which slice is exposed. Its value is `drawing_of(…)`."""
    return gr.HTML(
        value, html_template='<div class="ls-drawing"></div>', js_on_load=DRAWING_JS, apply_default_css=False, **kwargs
    )


def survey(script: str, screen: str, **kwargs: Any) -> gr.HTML:
    """The map or the sweep: its value is the latest report, and a picked place is told by its `select` event."""
    return gr.HTML(
        "",
        html_template='<div class="ls-survey"></div>',
        apply_default_css=False,
        js_on_load=SURVEY_JS.replace("SCRIPT", script).replace("SCREEN", screen),
        **kwargs,
    )


def links(**kwargs: Any) -> gr.HTML:
    """What is said of links: of the one that was opened, and of the one that is copied."""
    return gr.HTML(
        "", html_template='<div class="ls-links"></div>', js_on_load=LINKS_JS, apply_default_css=False, **kwargs
    )


def examples(sentences: Mapping[str, str], **kwargs: Any) -> gr.HTML:
    """Sentences to tap, and the way back to one's own: what else belongs to the box above them."""
    return gr.HTML(
        json.dumps(sentences),
        html_template='<div class="ls-examples"></div>',
        js_on_load=SENTENCE_JS,
        apply_default_css=False,
        **kwargs,
    )


def shown(**kwargs: Any) -> gr.HTML:
    """Says what the stage shows, where it is not what the controls ask for. Its value is what these ask for."""
    return gr.HTML(
        "",
        html_template='<div class="ls-shown-note" role="status"></div>',
        js_on_load=SHOWN_JS,
        apply_default_css=False,
        **kwargs,
    )


# `element` holds the template's div; a message that comes before the script has loaded waits for it. The stage is on
# window for the buttons that speak to it without the server.
STAGE_JS = """
const load = (name) => import(new URL(`static/assets/${name}.js`, document.baseURI));
const ready = Promise.all([load('stage'), load('stage/saving')]).then(([{ Stage }, { Saving }]) => {
    window.leakscope = new Stage(element.querySelector('.ls-stage'), {
        plotly: 'static/plotly.min.js', recording: 'static/assets/recordings/default.json',
        view: window.leakscopeView,
    });
    window.leakscope.player.node.append(new Saving(window.leakscope).node);
    return window.leakscope;
});
watch('value', () => {
    const value = props.value;
    if (value) ready.then((stage) => stage.hear(JSON.parse(value)));
});
"""
# An answer to a pick may come after the next pick: what the person picked last stands.
DRAWING_JS = """
import(new URL('static/assets/stage/drawing.js', document.baseURI)).then(({ Drawing }) => {
    let last = null, given = null;
    const picked = (spec) => JSON.stringify({ ...spec, slice: last.slice, chosen: last.layers });
    const drawing = new Drawing(element.querySelector('.ls-drawing'), (choice) => {
        const spec = JSON.parse(props.value);
        last = { ...choice, model: spec.model };
        props.value = picked(spec);
        trigger('input');
    });
    drawing.show(JSON.parse(props.value));
    watch('value', () => {
        const spec = JSON.parse(props.value);
        if (spec.given && spec.given !== given) last = null;  // no answer to a pick here: it was picked elsewhere
        given = spec.given || given;
        const late = last?.model === spec.model && picked(spec) !== JSON.stringify(spec);
        if (late) props.value = picked(spec);
        else drawing.show(spec);
    });
});
"""
# A recording is shown until the person's own survey begins.
SURVEY_JS = """
const ready = import(new URL('static/assets/survey/SCRIPT.js', document.baseURI)).then((module) => {
    window.SCREEN = new module.Picture(element.querySelector('.ls-survey'), {
        name: 'SCRIPT', recording: 'static/assets/recordings/SCRIPT.json', onPick: (row) => trigger('select', row),
    });
    return window.SCREEN;
});
watch('value', () => {
    const value = props.value;
    if (value) ready.then((survey) => survey.hear(JSON.parse(value)));
});
"""
LINKS_JS = """
const ready = import(new URL('static/assets/links.js', document.baseURI)).then(({ Links }) => {
    window.leakscopeLinks = new Links(element.querySelector('.ls-links'), () => trigger('select'));
    return window.leakscopeLinks;
});
const show = () => {
    const value = props.value;
    if (value) ready.then((links) => links.show(JSON.parse(value)));
};
show();
watch('value', show);
"""
SENTENCE_JS = """
import(new URL('static/assets/sentence.js', document.baseURI)).then(({ Sentence }) => {
    window.leakscopeSentence = new Sentence(element.querySelector('.ls-examples'), JSON.parse(props.value));
});
"""
SHOWN_JS = """
const ready = import(new URL('static/assets/stage/shown.js', document.baseURI)).then(({ Shown }) =>
    new Shown(element.querySelector('.ls-shown-note')));
watch('value', () => {
    const value = props.value;
    if (value) ready.then((shown) => shown.update(JSON.parse(value)));
});
"""


def control_for(field: Field, value: Any, **kwargs: Any) -> Any:
    """The control of one setting: its value, its help, its bounds."""
    told = field.metadata
    named = {"label": label_of(field), "info": told["help"], **kwargs}
    if told["choices"]:
        return gr.Dropdown([(choice or OWN, choice) for choice in told["choices"]], value=value, **named)
    if isinstance(value, bool):
        return gr.Checkbox(value, **named)
    if told["step"]:
        return gr.Slider(told["low"], told["high"], value, step=told["step"], **named)
    digits = 0 if isinstance(value, int) else None
    return gr.Number(value, minimum=told["low"], maximum=told["high"], precision=digits, **named)


class Assets(StaticFiles):
    """Our own files, asked for anew each time (and answered "unchanged"): an update must not meet an old script."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def routes() -> list[BaseRoute]:
    """Our own files and Plotly's script, served beside Gradio's, so that nothing is fetched from other hosts."""
    return [
        Mount("/static/assets", Assets(directory=ASSETS)),
        Route("/static/plotly.min.js", lambda request: FileResponse(PLOTLY_JS)),
        Route("/health", lambda request: PlainTextResponse("ok")),
    ]


def head() -> str:
    """Styles, and what the browser should fetch at once: the recording and every script."""
    files = sorted([*ASSETS.glob("*.js"), *ASSETS.glob("*/*.js")])
    scripts = [file.relative_to(ASSETS).as_posix() for file in files]
    return "\n".join(
        [
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            *(f'<link rel="stylesheet" href="static/assets/{name}">' for name in STYLES),
            *(f'<link rel="modulepreload" href="static/assets/{name}">' for name in scripts),
            '<link rel="preload" href="static/assets/recordings/default.json" as="fetch" crossorigin="anonymous">',
        ]
    )
