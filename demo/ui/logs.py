"""What goes wrong is logged by its place and its name, never with values: they may hold somebody's sentence."""

import logging
import sys
import traceback
from typing import Any


def place_of(problem: BaseException | None) -> str:
    """Where an exception was raised, and its kind."""
    if problem is None:
        return ""
    return "".join(traceback.format_tb(problem.__traceback__)) + type(problem).__name__


def be_discreet() -> None:
    """For what Gradio and its server log themselves: both print an exception's text, and so the value it was about."""

    def print_exc(*_: Any, **__: Any) -> None:
        print(place_of(sys.exception()), file=sys.stderr)

    def format_exception(self: logging.Formatter, info: Any) -> str:
        return place_of(info[1])

    traceback.print_exc = print_exc
    logging.Formatter.formatException = format_exception  # type: ignore[assignment,method-assign]
