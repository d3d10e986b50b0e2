"""The app in a process of its own, as a person would start it: for the tests and for `benchmark stream`."""

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

APP = Path(__file__).parents[2] / "app.py"


@dataclass(frozen=True)
class Server:
    """A running app: where it is, and what it has printed so far."""

    address: str
    process: "subprocess.Popen[bytes]"
    log: Path


@contextmanager
def serve(*arguments: str, **environment: str) -> Iterator[str]:
    """The address of a fresh server."""
    with served(*arguments, environment=environment) as server:
        yield server.address


@contextmanager
def served(
    *arguments: str, port: int = 0, folder: Path = APP.parent, environment: Mapping[str, str] = os.environ
) -> Iterator[Server]:
    """A fresh server, in a working directory; what it prints is shown if it does not come up."""
    port = port or free_port()
    with tempfile.TemporaryDirectory() as kept:
        log = Path(kept) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, str(APP), "--port", str(port), *arguments],
                cwd=folder,
                stdout=output,
                stderr=output,
                env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},
            )
        server = Server(f"http://127.0.0.1:{port}/", process, log)
        try:
            wait(server)
            yield server
        finally:
            process.kill()
            process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait(server: Server) -> None:
    for _ in range(1500):
        try:
            urllib.request.urlopen(server.address + "health", timeout=5).read()
            return
        except OSError:
            time.sleep(0.2)
        if server.process.poll() is not None:
            break
    raise RuntimeError(f"the server did not come up: {server.log.read_text(errors='replace')}")
