"""A page without a browser: it starts the runs of any tab with the values of the page's controls, and hears them."""

import itertools
import json
import secrets
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
from gradio_client.utils import apply_diff

TABS = ("stage", "compare", "map", "sweep")  # by the picture that a run streams into
TIMEOUT = httpx.Timeout(60, read=None)  # in line one waits as long as it takes


class Visitor:
    """One open page."""

    tickets = itertools.count(1.5)

    def __init__(self, address: str) -> None:
        self.http = httpx.Client(base_url=address, timeout=TIMEOUT)
        self.session = secrets.token_hex(6)
        config = self.http.get("config").json()
        self.parts = {part["id"]: part["props"] for part in config["components"]}
        self.events = {
            self.parts[event["outputs"][0]].get("elem_id"): event
            for event in config["dependencies"]
            if len(event["outputs"]) == 1 and event["outputs"][0] in self.parts and len(event["inputs"]) > 2
        }

    def start(self, tab: str = "stage", **changed: Any) -> float:
        """Starts a tab's run: controls are named by their ids on the page, or by their labels. -> its ticket"""
        event, ticket = self.events[tab], next(self.tickets)
        values = [self._value(self.parts[number], changed) for number in event["inputs"][:-1]]
        form = {"data": [*values, ticket], "fn_index": event["id"], "session_hash": self.session}
        self.http.post("gradio_api/queue/join", json=form).raise_for_status()
        return ticket

    def _value(self, control: dict[str, Any], changed: dict[str, Any]) -> Any:
        for name in (control.get("elem_id"), control.get("label")):
            if name in changed:
                return changed[name]
        return control.get("value")

    def hear(self) -> Iterator[dict[str, Any]]:
        """What is streamed into the picture until the run is over; leaving early is to close the page."""
        with self.http.stream("GET", "gradio_api/queue/data", params={"session_hash": self.session}) as answer:
            told: list[Any] = []
            for line in answer.iter_lines():
                message = json.loads(line.removeprefix("data:")) if line.startswith("data:") else {}
                output = message.get("output") or {}
                if message.get("msg") == "process_completed" and not message.get("success", True):
                    raise RuntimeError(output.get("error") or "the server gave no reason")
                if message.get("msg") == "process_generating":
                    new = output["data"]
                    told = [apply_diff(old, change) for old, change in zip(told, new, strict=True)] if told else new
                    yield json.loads(told[0])
                if message.get("msg") == "close_stream":
                    return

    def close(self) -> None:
        self.http.close()


def run(address: str, tab: str = "stage", **changed: Any) -> list[dict[str, Any]]:
    """All messages of one run."""
    with closing(Visitor(address)) as visitor:
        visitor.start(tab, **changed)
        return list(visitor.hear())
