"""Runs that a visitor starts and stops: one at a time, whichever tab it is on."""

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from demo.ui.limits import Visitors

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
    const next = Date.now() + Math.random();  // no two visitors have the same
    screen.waiting(next);
    screen.wanted = busy && next;
    screen.busy = true;
    const phone = matchMedia('(max-width: 959px)').matches;  // one column: the picture has to come into view
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    if (phone) screen.root.scrollIntoView({ behavior: calm ? 'auto' : 'smooth' });
    return busy ? ticket : next;
}"""
GONE_JS = """(ticket) => {
    const screen = window.SCREEN, wanted = screen.wanted;
    screen.busy = Boolean(wanted);
    screen.wanted = false;
    if (!wanted) screen.gone();
    return wanted || ticket;
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


def connect_runs(runs: Sequence[Run], visitors: Visitors) -> None:
    """Whatever is started takes the place of what is under way."""
    tickets = [gr.Number(visible=False) for _ in runs]
    running = [
        ticket.change(
            admitted(run, visitors), [*run.inputs, ticket], run.picture, show_progress="hidden", concurrency_id=DEVICE,
            concurrency_limit=1, trigger_mode="multiple", api_visibility="private",
        )
        for run, ticket in zip(runs, tickets, strict=True)
    ]  # fmt: skip
    for run, ticket, this in zip(runs, tickets, running, strict=True):
        others = ", ".join(f"window.{other.screen}" for other in runs if other is not run)
        start, gone, stop = (
            script.replace("SCREEN", run.screen).replace("OTHERS", f"[{others}]")
            for script in (START_JS, GONE_JS, STOP_JS)
        )
        for over in (this.then, this.failure):  # Gradio's `then` does not follow an error, nor a line that is full
            over(None, ticket, ticket, js=gone, api_visibility="private")
        gr.on(run.starts, None, ticket, ticket, js=start, cancels=running, api_visibility="private")
        run.stop.click(None, js=stop, cancels=[this], api_visibility="private")


def admitted(run: Run, visitors: Visitors) -> Callable[..., Iterator[str]]:
    """The run's stream, for a visitor who has not started too many. The last value is the ticket: it marks the place in
    the line."""

    def stream(request: gr.Request, *values: Any) -> Iterator[str]:
        try:
            visitors.admit(request)
        except ValueError as problem:
            yield json.dumps({"run": secrets.token_hex(4), "error": str(problem)})
            return
        yield from run.stream(*values[:-1])

    return stream


def before(page: gr.Blocks, ticket: float) -> int | None:
    """How many runs come before the one of this ticket; None if it does not wait. The API's runs wait in line too."""
    line = page._queue.event_queue_per_concurrency_id.get(DEVICE)
    if line is None:
        return None
    tickets = [event.data.data[-1] if event.data and event.data.data else None for event in line.queue]
    return tickets.index(ticket) + line.current_concurrency if ticket in tickets else None


def line_route(page: gr.Blocks) -> Route:
    """Where a waiting page asks for its place: /line?ticket=…"""

    async def line(request: Request) -> JSONResponse:  # in the thread that keeps the line
        try:
            place = before(page, float(request.query_params.get("ticket", "")))
        except ValueError:
            return JSONResponse({"error": "the ticket is not a number"}, 400)
        return JSONResponse({"before": place}, headers={"Cache-Control": "no-store"})

    return Route("/line", line)
