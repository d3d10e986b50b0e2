"""Leakscope: `python app.py` serves the page; `--help` lists host, port, model, device and limits."""

import argparse
import os
import socket
import sys

# Nothing is reported to anyone, and nothing is fetched that was not asked for.
os.environ.update(GRADIO_ANALYTICS_ENABLED="False", HF_HUB_DISABLE_TELEMETRY="1", DO_NOT_TRACK="1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # a worker that is forked must not inherit its threads
if "SPACE_ID" in os.environ:  # a Space's proxy is the only way in, and knows the visitors' addresses
    os.environ.setdefault("LEAKSCOPE_HOST", "0.0.0.0")
    os.environ.setdefault("FORWARDED_ALLOW_IPS", "*")

if "SPACES_ZERO_GPU" in os.environ:  # where GPUs are lent, it has to come before torch
    import spaces  # noqa: F401

import gradio as gr

from demo.machine import settle
from demo.ui.components import head, routes
from demo.ui.computing import LENT
from demo.ui.limits import Limits
from demo.ui.link_controls import opening
from demo.ui.logs import be_discreet
from demo.ui.page import build
from demo.ui.start_and_stop import line_route
from demo.victim.models import MODELS, pick_device, unavailable

FONTS = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"]  # gradio's own would come from another host
MONO = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"]
ACCENT = "#b0267a"  # the one colour of what leaks, as in assets/stage.css
THEME = gr.themes.Default(
    primary_hue="fuchsia", secondary_hue="fuchsia", neutral_hue="zinc", spacing_size="sm", font=FONTS, font_mono=MONO
).set(
    button_primary_background_fill=ACCENT,
    button_primary_background_fill_hover=ACCENT,
    button_primary_background_fill_dark=ACCENT,
    button_primary_background_fill_hover_dark=ACCENT,
    button_primary_text_color="white",
    button_primary_text_color_dark="white",
    slider_color=ACCENT,
    slider_color_dark=ACCENT,
    checkbox_background_color_selected=ACCENT,
    checkbox_background_color_selected_dark=ACCENT,
    checkbox_border_color_selected=ACCENT,
    checkbox_border_color_selected_dark=ACCENT,
)


def main(arguments: list[str] | None = None) -> int:
    try:
        options = parse(arguments)
        limits = limits_of(options)
        model = options.model or limits.models[0]
        if model not in limits.models:
            raise ValueError(f"{model} is not among LEAKSCOPE_MODELS: choose one of {', '.join(limits.models)}")
        reason = unavailable(model, MODELS[model].default)
        if reason:
            raise ValueError(reason)
        check_port(options.host, options.port)
    except ValueError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    be_discreet()
    settle()
    page = build(limits, model, options.device)
    # api_open would let programs attack past the line of those who wait.
    page.queue(max_size=limits.queue, api_open=False).launch(
        server_name=options.host,
        server_port=options.port,
        theme=THEME,
        head=head() + opening(),
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        ssr_mode=False,
        show_error=True,
        app_kwargs={"routes": [*routes(), line_route(page)]},
    )
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Watch a gradient give away its sentence, in the browser.",
        epilog="Environment: LEAKSCOPE_HOST, _PORT, _MODEL, _DEVICE, _SECONDS, _TOKENS, _QUEUE set the same; _MODELS "
        "lists the models on offer, _SURVEY is the seconds of a whole map or sweep, _PER_VISITOR and _PER_ADDRESS the "
        "runs that a browser and an address may start in a minute (0: any number).",
    )
    told = os.environ.get
    parser.add_argument("--host", default=told("LEAKSCOPE_HOST", "127.0.0.1"), help="0.0.0.0 serves other machines too")
    parser.add_argument("--port", type=int, default=told("LEAKSCOPE_PORT", "7860"))
    parser.add_argument("--model", choices=MODELS, default=told("LEAKSCOPE_MODEL"), help="shown first")
    parser.add_argument(
        "--device", default=told("LEAKSCOPE_DEVICE"), help="cuda, mps or cpu; default: the best there is"
    )
    parser.add_argument("--seconds", type=float, help="the longest budget of an attack; default: by device")
    parser.add_argument("--tokens", type=int, help=f"the longest sentence; default: {Limits.tokens}")
    parser.add_argument("--queue", type=int, help=f"how many visitors may wait; default: {Limits.queue}")
    return parser.parse_args(arguments)


def limits_of(options: argparse.Namespace) -> Limits:
    """The limits of this device, unless the environment or the command line says otherwise."""
    given = {name: getattr(options, name) for name in ("seconds", "tokens", "queue")}
    said = {f"LEAKSCOPE_{name.upper()}": str(value) for name, value in given.items() if value is not None}
    return Limits.from_environment({**os.environ, **said}, pick_device(options.device).type, LENT)


def check_port(host: str, port: int) -> None:
    """A busy port is said in one line, before the model is loaded."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:
            raise ValueError(
                f"port {port} on {host} cannot be used ({problem.strerror}): choose another --port"
            ) from None


if __name__ == "__main__":
    sys.exit(main())
