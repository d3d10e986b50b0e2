"""Runs that a visitor starts and stops: one at a time, whichever tab it is on.

A start makes a ticket, tells the server that from now on only this one counts, and the ticket that comes back begins
the run. Whatever of the same visitor is older leaves the line, or ends at its next frame, and its frames are not shown
any more. Gradio's own `cancels` would not do: it goes through the runs one by one, waits until each is gone, and then
takes a run that has begun meanwhile for one that it has to cancel.
"""

import json
import secrets
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.server_messages import ProcessCompletedMessage
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from demo.screen.messages import Message
from demo.ui.limits import Visitors

DEVICE = "attack"  # one running attack per device: page and API wait in the same line
MOST_VISITORS = 2000  # whose latest ticket is known
AT_ONCE: dict[str, Any] = {
    "queue": False,
    "show_progress": "hidden",
    "trigger_mode": "multiple",
    "api_visibility": "private",
}
RUNS_JS = "async () => (await import(new URL('static/assets/runs.js', document.baseURI))).ACT('SCREEN')"


@dataclass(frozen=True)
class Run:
    """What streams into a picture, and the buttons that start and stop it."""

    screen: str  # the picture's script, by its name on window
    starts: Sequence[Callable[..., Any]]
    stop: gr.Button
    stream: Callable[..., Generator[Message]]
    inputs: Sequence[Any]
    picture: gr.HTML


class Latest:
    """The latest ticket of each visitor: a run with an older one gives way."""

    def __init__(self) -> None:
        self.tickets: dict[str, float] = {}

    def claim(self, visitor: str, ticket: float) -> None:
        self.tickets[visitor] = max(ticket, self.tickets.pop(visitor, ticket))
        while len(self.tickets) > MOST_VISITORS:
            del self.tickets[next(iter(self.tickets))]

    def counts(self, visitor: str, ticket: float) -> bool:
        return self.tickets.get(visitor, ticket) <= ticket

    def done(self, visitor: str, ticket: float) -> None:
        """Its run is over: nothing older can be under way."""
        if self.tickets.get(visitor) == ticket:
            self.tickets.pop(visitor, None)


def connect_runs(page: gr.Blocks, runs: Sequence[Run], visitors: Visitors) -> None:
    """Whatever is started takes the place of what is under way."""
    latest = Latest()
    claimed, stopped = claiming(page, latest)
    for run in runs:
        ticket = gr.Number(visible=False)
        start, stop, gone = (
            RUNS_JS.replace("ACT", act).replace("SCREEN", run.screen) for act in ("start", "stop", "gone")
        )
        running = ticket.change(
            admitted(run, visitors, latest),
            [*run.inputs, ticket],
            run.picture,
            show_progress="hidden",
            concurrency_id=DEVICE,
            concurrency_limit=1,
            trigger_mode="multiple",
            api_visibility="private",
        )
        running.failure(None, js=gone, api_visibility="private")  # an error, or a line that is full
        gr.on(run.starts, claimed, ticket, ticket, js=start, **AT_ONCE)
        run.stop.click(stopped, ticket, None, js=stop, **AT_ONCE)


def claiming(page: gr.Blocks, latest: Latest) -> tuple[Callable[..., Awaitable[Any]], Callable[..., Awaitable[None]]]:
    async def claimed(ticket: float, request: gr.Request) -> float:  # in the thread that keeps the line
        """From now on only this ticket counts."""
        latest.claim(str(request.session_hash), ticket)
        await leave_line(page, str(request.session_hash), ticket)
        return ticket

    async def stopped(ticket: float | None, request: gr.Request) -> None:
        """A ticket without a run, so that nothing goes on; None where nothing is under way."""
        if ticket is not None:
            await claimed(ticket, request)

    return claimed, stopped


async def leave_line(page: gr.Blocks, visitor: str, ticket: float) -> None:
    """What this visitor has waiting with an older ticket makes room for others; the page is told that it is over."""
    for event in waiting(page):
        mine = ticket_of(event)
        if event.session_hash == visitor and mine is not None and mine < ticket:
            await page._queue.remove_from_queue(event._id)
            page._queue.send_message(event, ProcessCompletedMessage(output={}, success=True))


def admitted(run: Run, visitors: Visitors, latest: Latest) -> Callable[..., Iterator[str]]:
    """The run's stream, for a visitor who has not started too many, as long as nothing newer of theirs is started. The
    last value is the ticket: it marks the place in the line, and the messages."""

    def stream(request: gr.Request, *values: Any) -> Iterator[str]:
        *asked, ticket = values
        visitor = str(request.session_hash)
        try:
            for message in messages(request, asked, lambda: latest.counts(visitor, ticket)):
                told = {**message, "run": message["run"] or secrets.token_hex(4), "ticket": ticket}
                yield json.dumps(told, separators=(",", ":"))
        finally:
            latest.done(visitor, ticket)

    def messages(request: gr.Request, asked: Sequence[Any], counts: Callable[[], bool]) -> Iterator[Message]:
        """What is wrong with the values is said in the picture."""
        if not counts():
            return
        try:
            visitors.admit(request)
            with closing(run.stream(*asked)) as stream:
                for message in stream:
                    if not counts():
                        return
                    yield message
        except ValueError as problem:
            yield {"run": "", "error": str(problem)}

    return stream


def waiting(page: gr.Blocks) -> list[Any]:
    """The runs in line, as Gradio knows them."""
    line = page._queue.event_queue_per_concurrency_id.get(DEVICE)
    return list(line.queue) if line else []


def ticket_of(event: Any) -> float | None:
    """The ticket of a run of the page; None for one of the API."""
    last = event.data.data[-1] if event.data and event.data.data else None
    return last if isinstance(last, float | int) else None


def place_of(page: gr.Blocks, ticket: float) -> dict[str, Any]:
    """How many runs come before the one of this ticket, None if it does not wait; and whether it is there at all. The
    API's runs wait in line too."""
    tickets = [ticket_of(event) for event in waiting(page)]
    if ticket in tickets:
        line = page._queue.event_queue_per_concurrency_id[DEVICE]
        return {"before": tickets.index(ticket) + line.current_concurrency, "there": True}
    running = [event for job in page._queue.active_jobs if job for event in job]
    return {"before": None, "there": ticket in map(ticket_of, running)}


def line_route(page: gr.Blocks) -> Route:
    """Where a waiting page asks for its place: /line?ticket=…"""

    async def line(request: Request) -> JSONResponse:  # in the thread that keeps the line
        try:
            place = place_of(page, float(request.query_params.get("ticket", "")))
        except ValueError:
            return JSONResponse({"error": "the ticket is not a number"}, 400)
        return JSONResponse(place, headers={"Cache-Control": "no-store"})

    return Route("/line", line)
