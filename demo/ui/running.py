"""Runs that a visitor starts and stops: one at a time, whichever tab it is on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

DEVICE = "attack"  # one running attack per device: page and API wait in the same line

# A new ticket starts a run. Gradio cancels the run under way in its own time, and would take a run that starts
# meanwhile for the cancelled one; so then the ticket is only wanted, and handed out when the old run is gone.
START_JS = """(ticket) => {
    const screen = window.SCREEN, busy = screen.busy;
    for (const other of OTHERS) {
        if (!other) continue;  // its tab was never opened
        other.wanted = false;
        other.stopped();
    }
    screen.waiting();
    screen.wanted = busy;
    screen.busy = true;
    const phone = matchMedia('(max-width: 959px)').matches;  // one column: the picture has to come into view
    if (phone) screen.root.scrollIntoView({ behavior: 'smooth' });
    return busy ? ticket : Date.now();
}"""
GONE_JS = """(ticket) => {
    const screen = window.SCREEN, wanted = screen.wanted;
    screen.busy = wanted;
    screen.wanted = false;
    return wanted ? Date.now() : ticket;
}"""
STOP_JS = "() => { window.SCREEN.wanted = false; window.SCREEN.stopped(); }"


@dataclass(frozen=True)
class Run:
    """What streams into a picture, and the buttons that start and stop it."""

    screen: str  # the picture's script, by its name on window
    starts: Sequence[Callable[..., Any]]
    stop: gr.Button
    stream: Callable[..., Iterator[str]]
    inputs: Sequence[Any]
    picture: gr.HTML


def connect_runs(runs: Sequence[Run]) -> None:
    """Whatever is started takes the place of what is under way."""
    tickets = [gr.Number(visible=False) for _ in runs]
    running = [
        ticket.change(
            run.stream, run.inputs, run.picture, show_progress="hidden", concurrency_id=DEVICE, concurrency_limit=1,
            trigger_mode="multiple", api_visibility="private",
        )
        for run, ticket in zip(runs, tickets, strict=True)
    ]  # fmt: skip
    for run, ticket, this in zip(runs, tickets, running, strict=True):
        others = ", ".join(f"window.{other.screen}" for other in runs if other is not run)
        start, gone, stop = (
            script.replace("SCREEN", run.screen).replace("OTHERS", f"[{others}]")
            for script in (START_JS, GONE_JS, STOP_JS)
        )
        this.then(None, ticket, ticket, js=gone, api_visibility="private")
        gr.on(run.starts, None, ticket, ticket, js=start, cancels=running, api_visibility="private")
        run.stop.click(None, js=stop, cancels=[this], api_visibility="private")
