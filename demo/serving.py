"""The app in a process of its own, as a person would start it: for the tests and for `benchmark stream`."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

APP = Path(__file__).parent.parent / "app.py"


@contextmanager
def serve(*arguments: str) -> Iterator[str]:
    """The address of a fresh server; what it prints is shown if it does not come up."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, str(APP), "--port", str(port), *arguments]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(
        command, cwd=APP.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    address = f"http://127.0.0.1:{port}/"
    try:
        wait(process, address + "health")
        yield address
    finally:
        process.kill()
        process.communicate()


def wait(process: "subprocess.Popen[bytes]", health: str) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(health, timeout=5).read()
            return
        except OSError:
            time.sleep(0.2)
        if process.poll() is not None:
            break
    process.kill()
    raise RuntimeError(f"the server did not come up: {process.communicate()[0].decode()}")
