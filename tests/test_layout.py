"""The house's own rules: imports point one way, and nobody looks over the wall."""

import ast
import re
from pathlib import Path

import demo

ROOT = Path(demo.__file__).parent


def rooms(file: Path) -> set[str]:
    """The rooms of the house that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "demo":
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("demo."):
            found.add((node.module or "").split(".")[1])
    return found


def test_the_map_is_complete_and_in_reading_order():
    """demo/__init__.py lists every room, and each imports only rooms that stand above it."""
    order = re.findall(r"^    (\w+)/? ", demo.__doc__, re.M)
    there = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert set(order) == there - {"__init__"}
    for place, name in enumerate(order):
        files = [ROOT / f"{name}.py"] if (ROOT / f"{name}.py").exists() else list((ROOT / name).glob("*.py"))
        for file in files:
            assert rooms(file) - {name} <= set(order[:place]), f"{file.name} imports what stands below it"


def test_screen_and_benchmark_do_not_know_each_other():
    for file in (ROOT / "ui").glob("*.py"):
        assert not rooms(file) & {"benchmark", "claims", "speed", "stream"}
    for name in ("benchmark", "stream", "claims", "speed"):
        assert "ui" not in rooms(ROOT / f"{name}.py")
