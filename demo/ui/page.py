"""The page: the client's controls on the left, the attacker's stage on the right; and tabs for many attacks at once."""

import threading
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import gradio as gr

from demo.runs.engine import Experiment, run
from demo.screen.messages import Message
from demo.ui import components
from demo.ui.api import endpoint
from demo.ui.choices import DEFAULT
from demo.ui.compare_tab import compare_tab
from demo.ui.computing import LENT, told
from demo.ui.controls import Controls, client_side, experiment_of
from demo.ui.lessons_tab import lesson_panel, lessons_tab
from demo.ui.limits import Limits, Visitors
from demo.ui.link_controls import connect_links
from demo.ui.notes import connect_notes, described, sentence_note
from demo.ui.read_tab import READ_TAB, read_more, reading_tab
from demo.ui.results_tab import results_tab
from demo.ui.start_and_stop import DEVICE, Run, connect_runs
from demo.ui.survey_tabs import ATTACK_TAB, map_tab, sweep_tab
from demo.victim.models import load

TITLE = "Leakscope · watch a gradient give away its sentence"
INTRO = """
# Leakscope <small>watch a gradient give away its sentence</small>
In federated learning a client keeps its text and shares only a gradient. Expose a slice of it, press **Attack**, and
see what it tells.
"""


def build(limits: Limits, model: str = DEFAULT.model, device: str | None = None) -> gr.Blocks:
    """The whole app; `launch()` of the result serves it."""
    visitors = Visitors(limits)
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        gr.Markdown(INTRO, elem_classes="ls-intro")
        with gr.Tabs(selected=ATTACK_TAB, elem_id="tabs") as tabs:
            with gr.Tab("Attack", id=ATTACK_TAB), gr.Row(elem_classes="ls-columns"):
                with gr.Column(scale=2, min_width=340, elem_classes="ls-client"):
                    controls = client_side(limits, model, sentence_note(limits, model, DEFAULT.sentence))
                    read_more(tabs, "using")
                with gr.Column(scale=3, min_width=340, elem_classes="ls-attacker"):
                    with gr.Row(elem_classes="ls-heading"):
                        gr.Markdown("## The attacker <small>sees only what glows</small>", elem_classes="ls-side")
                        shown = components.shown(elem_id="shown")
                    panel = lesson_panel()
                    stage = components.stage(elem_id="stage")
            with gr.Tab("Compare", id="compare"):
                comparing = compare_tab(controls, limits, device)
                read_more(tabs, "attacks")
            with gr.Tab("Map", id="map"):
                mapping = map_tab(controls, tabs, limits, device)
                read_more(tabs, "attacks")
            with gr.Tab("Sweep", id="sweep"):
                sweeping = sweep_tab(controls, tabs, limits, device)
                read_more(tabs, "results")
            with gr.Tab("Lessons", id="lessons"):
                lessons_tab(controls, panel, tabs, limits)
                read_more(tabs, "attacks")
            with gr.Tab("Results", id="results") as results:
                results_tab(results)
                read_more(tabs, "results")
            with gr.Tab("Read", id=READ_TAB):
                reading_tab()
        connect_runs(page, [attacking(controls, stage, limits, device), comparing, *mapping, sweeping], visitors)
        connect_notes(controls, shown, limits, device)
        connect_links(page, controls, tabs, limits, model, device)
        gr.api(endpoint(limits, device, visitors), api_name="attack", concurrency_id=DEVICE, concurrency_limit=1)
    make_ready(replace(DEFAULT, model=model, device=device))
    return page


def make_ready(first: Experiment) -> None:
    """The model that most visitors use is loaded before they come."""
    if LENT:
        load(first.model, first.weights, first.device)  # workers inherit it; nothing may be computed here
    else:
        threading.Thread(target=warm_up, args=(first,), daemon=True).start()


def warm_up(experiment: Experiment) -> None:
    """The model in memory and a few steps taken, while the visitor reads: the first click should not wait for it."""
    load(experiment.model, experiment.weights, experiment.device)
    if experiment.model == DEFAULT.model:
        for frame in run(experiment):
            if frame.snapshot.step > 3:
                return


def attacking(controls: Controls, stage: gr.HTML, limits: Limits, device: str | None) -> Run:
    """Attack and Stop."""

    def stream(*values: Any) -> Generator[Message]:
        experiment = experiment_of(values, limits, device)
        for message in told(experiment):
            yield message | ({"asked": described(experiment)} if "start" in message else {})

    return Run("leakscope", [controls.go.click], controls.stop, stream, controls.values, stage)
