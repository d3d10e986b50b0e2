"""The house's own rules, read from its folders: imports point one way, and nobody looks over the wall."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import demo

ROOT = Path(demo.__file__).parent
ROOMS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


def imported(file: Path) -> set[str]:
    """What a file imports of the house: "victim.models", "turns"."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names if name.name.startswith("demo.")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "demo":
            inside = (ROOT.parent / (node.module or "").replace(".", "/")).is_dir()
            found |= {f"{node.module}.{name.name}" for name in node.names} if inside else {node.module or ""}
    return {name.removeprefix("demo.") for name in found}


def listed(doc: str) -> list[str]:
    """The names at the beginning of a list's lines."""
    return re.findall(r"^ *(\w+)/?  +\S", doc, re.M)


def names_in(folder: Path) -> set[str]:
    return {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}


def files_of(folder: Path, name: str) -> list[Path]:
    return list((folder / name).rglob("*.py")) if (folder / name).is_dir() else [folder / f"{name}.py"]


def test_rooms_are_listed_and_import_only_those_above_them():
    order = listed(demo.__doc__)
    assert set(order) == names_in(ROOT) - {"__init__"}
    for place, room in enumerate(order):
        for file in files_of(ROOT, room):
            below = {name.split(".")[0] for name in imported(file)} - {room, *order[:place]}
            assert not below, f"{file.relative_to(ROOT)} imports {below}, which stand below it"


@pytest.mark.parametrize("room", ROOMS)
def test_a_rooms_files_are_listed_and_import_only_those_above_them(room):
    order = listed(importlib.import_module(f"demo.{room}").__doc__)
    assert set(order) == names_in(ROOT / room) - {"__init__"}
    for place, name in enumerate(order):
        for file in files_of(ROOT / room, name):
            own = {found.split(".")[1] for found in imported(file) if found.split(".")[0] == room and "." in found}
            below = own - {name, *order[:place]}
            assert not below, f"{file.relative_to(ROOT)} imports {below}, which stand below it"


def test_an_attack_sees_a_leak_and_nothing_else():
    """The wall, whatever files there are."""
    for file in (ROOT / "attacker").rglob("*.py"):
        over = {name for name in imported(file) if name.split(".")[0] in ("client", "runs")}
        assert not over, f"{file.relative_to(ROOT)} looks over the wall, at {over}"
        assert "Secret" not in file.read_text(encoding="utf-8")


def test_page_and_benchmark_do_not_drive_each_other():
    """The page shows the tables that the benchmark made, and nothing else of it."""
    for file in (ROOT / "ui").glob("*.py"):
        of_bench = {name.split(".")[1] for name in imported(file) if name.startswith("bench.")}
        assert of_bench <= {"paper_tables", "defense_tables"}
    for file in (ROOT / "bench").glob("*.py"):
        assert not {name for name in imported(file) if name.startswith("ui")}


def test_the_first_hour_is_an_hour():
    """The files that lead from a sentence to a certificate are there, and short enough to be read at one go."""
    files = [ROOT / name for name in re.findall(r"^- (\S+\.py): ", demo.__doc__, re.M)]
    assert len(files) >= 8
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= 1300


def test_only_families_know_their_names():
    """Outside of victim/ nobody asks which family it is; models' names in tables and titles do not."""
    names = re.compile(r"Bert|\[CLS\]|\[SEP\]|LayerNorm|attention\.self|\bbert\b(?![-.])")
    for file in ROOT.rglob("*.py"):
        if "victim" not in file.parts:
            found = names.findall(file.read_text(encoding="utf-8"))
            assert not found, f"{file.relative_to(ROOT)} names {found}"


PYTHON = sorted([ROOT.parent / "app.py", *ROOT.rglob("*.py"), *(ROOT.parent / "tests").glob("*.py")])
SKIPPED = "# fmt: " + "skip"


def test_files_and_functions_are_short():
    """Of the house: 250 lines a file, 40 a function."""
    for file in (file for file in PYTHON if "tests" not in file.parts):
        text = file.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 250, f"{file.relative_to(ROOT.parent)} is long"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                assert lines <= 40, f"{node.name} in {file.relative_to(ROOT.parent)} has {lines} lines"


def test_the_formatter_decides():
    assert sum(file.read_text(encoding="utf-8").count(SKIPPED) for file in PYTHON) < 15
