"""The tabs Map and Sweep: many attacks as one picture, and the way back from a place in it to the attack."""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import gradio as gr

from demo.runs.engine import Experiment
from demo.runs.surveys import STRENGTHS, Reading, cells, survey, sweep
from demo.screen.reports import Report, reports, survey_title, sweep_title
from demo.screen.reports import row as row_of
from demo.settings import clamp
from demo.ui import components
from demo.ui.asked import modernised
from demo.ui.choices import experiment_from, practised
from demo.ui.computing import LENT, broken_off, guarded, on_gpu
from demo.ui.controls import Controls, control_values, experiment_of
from demo.ui.limits import Limits
from demo.ui.notes import EACH, QUICKLY
from demo.ui.start_and_stop import Run

ATTACK_TAB = "attack"
LONGEST = 60.0  # seconds a place or a strength
MOST_STRENGTHS = 20
MAP = """
## Where the model leaks
Each place of the model is attacked alone, with the sentence, model, training, defenses and attack of the Attack tab.
Click a finished one to open its experiment; of the recording, with your own sentence.
"""
SWEEP = """
## How strong a defense must be
The slice of the Attack tab is attacked under one defense, from weak to strong. What training loses is told by how much
the shared gradient still points where the clean one does. Click a point to run its attack; of the recording, on your
own sentence.
"""
LENT_NOTE = """
Here a GPU is lent, and every place asks for one anew: a whole picture may take all of your GPU time for today. Signed
in, you have more. The recorded picture below costs nothing.
"""
REPLAY_JS = "() => document.querySelector('#go').click()"  # the same experiment again, from the same seed

Place = dict[str, Any]


def map_tab(controls: Controls, tabs: gr.Tabs, limits: Limits, device: str | None) -> tuple[Run, Run]:
    gr.Markdown(MAP + (LENT_NOTE if LENT else ""), elem_classes="ls-intro")
    with gr.Row(elem_classes="ls-tools"):
        seconds = budget(20, limits)
        start, stop = buttons("map")
        more = gr.Button("Go on", elem_id="map-more")  # seen where a map was stopped
    picture = components.survey("map", "leakscopeMap", elem_id="map")

    def planned(seconds: float, *values: Any) -> tuple[str, Sequence[Experiment]]:
        base = experiment_of(values, limits, device)
        return survey_title(base), paced(cells(base), seconds, limits)

    def rest(report: str) -> Generator[Report]:
        base, earlier = stopped_map(report, limits, device)
        read = {(row["slice"], row["layer"]) for row in earlier}
        left = [one for one in cells(base) if place_of(one) not in read]
        if not left:
            raise ValueError("this map is whole: press Start for another one")
        todo = paced(left, base.seconds, limits)
        yield from guarded(reports(survey_title(base), todo, survey=surveyed, earlier=earlier))

    picture.select(opened(map_place, limits), None, [*controls.values, tabs], **EACH)
    whole = Run("leakscopeMap", [start.click], stop, streaming(planned), [seconds, *controls.values], picture)
    return whole, Run("leakscopeMap", [more.click], stop, rest, [picture], picture)


def sweep_tab(controls: Controls, tabs: gr.Tabs, limits: Limits, device: str | None) -> Run:
    gr.Markdown(SWEEP + (LENT_NOTE if LENT else ""), elem_classes="ls-intro")
    with gr.Row(elem_classes="ls-tools"):
        first = next(iter(STRENGTHS))
        defense = gr.Dropdown(list(STRENGTHS), value=first, label="Defense", elem_id="sweep-defense")
        strengths = gr.Textbox(listed(first), label="Strengths, from weak to strong", scale=3, elem_id="strengths")
        seconds = budget(15, limits)
        start, stop = buttons("sweep")
    picture = components.survey("sweep", "leakscopeSweep", elem_id="sweep")

    def planned(seconds: float, defense: str, texts: str, *values: Any) -> tuple[str, Sequence[Experiment]]:
        base = replace(experiment_of(values, limits, device), defenses=())
        return sweep_title(base), paced(sweep(base, defense, strengths_in(texts)), seconds, limits)

    defense.input(listed, defense, strengths, **QUICKLY)
    picked = picture.select(opened(sweep_place, limits), None, [*controls.values, tabs], **EACH)
    picked.success(None, js=REPLAY_JS, api_visibility="private")
    inputs = [seconds, defense, strengths, *controls.values]
    return Run("leakscopeSweep", [start.click], stop, streaming(planned), inputs, picture)


def stopped_map(text: str, limits: Limits, device: str | None) -> tuple[Experiment, list[Report]]:
    """The last report of a map, as the page hands it back -> the experiment of all its places, and what was read."""
    try:
        report = json.loads(text)
        base = replace(picked_in(report, first_place, limits), device=device)
        told = {(row["slice"], row["layer"]): row for row in report["readings"]}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError("there is no stopped map to go on with: press Start") from None
    rows = [told[place] for place in map(place_of, cells(base)) if place in told]
    if any(row.keys() != row_of(Reading(base)).keys() for row in rows):
        raise ValueError("the stopped map cannot be read: press Start")
    return base, rows


def place_of(experiment: Experiment) -> tuple[str, int | None]:
    return experiment.slice, experiment.layers[0] if experiment.layers else None


def first_place(report: Place) -> Place:
    return {"slice": "embeddings", "layers": []}


def map_place(row: Place) -> Place:
    """What an experiment of the map has for its own."""
    layer = row.get("layer")
    return {"slice": row.get("slice"), "layers": [] if layer is None else [layer]}


def sweep_place(row: Place) -> Place:
    return practised([str(row.get("defense"))])


def opened(place: Callable[[Place], Place], limits: Limits) -> Callable[[gr.EventData], list[Any]]:
    """A pick -> that experiment in the Attack tab, which comes to the front."""

    def taken(event: gr.EventData) -> list[Any]:
        try:
            experiment = picked_in(event._data, place, limits)
        except ValueError as problem:
            raise gr.Error(str(problem), print_exception=False) from None
        values = control_values(experiment)
        if event._data.get("recorded"):  # nobody asked for its sentence: the one in the box stays
            values[0] = gr.skip()
        return [*values, gr.Tabs(selected=ATTACK_TAB)]

    return taken


def picked_in(row: Place, place: Callable[[Place], Place], limits: Limits) -> Experiment:
    """What the browser tells of a survey and of the place that was picked -> a checked experiment."""
    asked = row.get("asked")
    if not isinstance(asked, dict) or "model" not in asked:
        raise ValueError("this place cannot be read: pick another one")
    return experiment_from(limits, modernised(asked) | place(row))


def budget(seconds: float, limits: Limits) -> gr.Slider:
    most = min(LONGEST, limits.seconds)
    return gr.Slider(1, most, min(seconds, limits.budget / 2, most), step=1, label="Seconds each", min_width=220)


def paced(experiments: Iterable[Experiment], seconds: float, limits: Limits) -> tuple[Experiment, ...]:
    """With a budget each that leaves the survey as a whole within its limit: others wait for its end."""
    planned = tuple(experiments)
    budget = clamp(seconds, 1.0, max(1.0, min(limits.seconds, limits.survey / len(planned))))
    return tuple(replace(experiment, seconds=budget) for experiment in planned)


def read(experiment: Experiment) -> Iterator[Reading]:
    """What goes wrong with one experiment is told in its place, and the others go on."""
    reading = Reading(experiment)
    try:
        for reading in survey([experiment]):
            yield reading
    except Exception as problem:
        yield replace(reading, done=True, reason=broken_off(problem))


read_on_gpu = on_gpu(read)


def surveyed(experiments: Sequence[Experiment]) -> Iterator[Reading]:
    """A GPU is lent for one experiment at a time."""
    for experiment in experiments:
        yield from read_on_gpu(experiment)


def buttons(name: str) -> tuple[gr.Button, gr.Button]:
    return gr.Button("Start", variant="primary", elem_id=f"{name}-go"), gr.Button("Stop", elem_id=f"{name}-stop")


def streaming(planned: Callable[..., tuple[str, Sequence[Experiment]]]) -> Callable[..., Generator[Report]]:
    def stream(*values: Any) -> Generator[Report]:
        title, experiments = planned(*values)
        yield from guarded(reports(title, experiments, survey=surveyed))

    return stream


def listed(defense: str) -> str:
    return ", ".join(strength if isinstance(strength, str) else f"{strength:g}" for strength in STRENGTHS[defense])


def strengths_in(texts: str) -> list[str]:
    """0.5, 0.9 -> the strengths as they are written; `sweep` reads them."""
    found = [text.strip()[:20] for text in str(texts).split(",") if text.strip()]
    if not found or len(found) > MOST_STRENGTHS:
        raise ValueError(f"there are {len(found)} strengths: give 1 to {MOST_STRENGTHS}, with commas between them")
    return found
