"""The tables in assets/docs/results.md, made from what was measured: assets/results/*.csv.

    python -m demo.benchmark document

Between `<!-- table: dp -->` and `<!-- end of table -->` stands what `written` makes of that table; the rest of the
document is left as it is. Figures are those of the files, digit for digit.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from demo.bench import paper_tables

DOCUMENT = Path(__file__).parents[2] / "assets" / "docs" / "results.md"
TABLE = re.compile(r"(<!-- table: (\S+) -->\n\n)(.*?)(\n\n<!-- end of table -->)", re.S)
NAMES = {"all": "everything"}

Cells = Sequence[Sequence[str]]


def updated(text: str) -> str:
    """The document with its tables as they were measured last."""
    return TABLE.sub(lambda found: f"{found[1]}{written(found[2])}{found[4]}", text)


def written(name: str) -> str:
    """One table as Markdown."""
    header, rows = paper_tables.read(name)
    if not rows:
        raise ValueError(f"there is no table {name!r} in {paper_tables.RESULTS}: measure it first")
    return markdown(LAYOUTS.get(name, of_paper)(header, rows))


def markdown(cells: Cells) -> str:
    header, *rows = cells
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])


def of_noise(header: Sequence[str], rows: Cells) -> Cells:
    """A line for each slice, a column for each strength: exact % / words found %."""
    told = [dict(zip(header, row, strict=True)) for row in rows]
    slices, sigmas = (list(dict.fromkeys(row[name] for row in told)) for name in ("slice", "sigma"))
    at = {(row["slice"], row["sigma"]): row for row in told}
    lines = [
        [NAMES.get(slice, slice), *(f"{short(row['exact'])} / {short(row['recover'])}" for row in line)]
        for slice, line in ((slice, [at[slice, sigma] for sigma in sigmas]) for slice in slices)
    ]
    cosines = [at[slices[0], sigma]["cosine"] for sigma in sigmas]
    last = [f"cosine to the clean gradient ({NAMES.get(slices[0], slices[0])})", *cosines]
    return [["exposed", *(f"σ = {sigma}" for sigma in sigmas)], *lines, last]


def of_defenses(header: Sequence[str], rows: Cells) -> Cells:
    """A line for each defense, a column for each slice: exact % / words found %, and the cosine."""
    told = [dict(zip(header, row, strict=True)) for row in rows]
    slices, defenses = (list(dict.fromkeys(row[name] for row in told)) for name in ("slice", "defense"))
    at = {
        (row["slice"], row["defense"]): f"{short(row['exact'])} / {short(row['recover'])} ({row['cosine']})"
        for row in told
    }
    lines = [[f"`{defense}`", *(at[slice, defense] for slice in slices)] for defense in defenses]
    return [["defense", *(NAMES.get(slice, slice) for slice in slices)], *lines]


def of_paper(header: Sequence[str], rows: Cells) -> Cells:
    """The paper's figures in one column, and those of each of our attacks: 29.45 / 27.07 / …"""
    count = header.index("sentences")
    groups: dict[str, list[int]] = {"the paper": list(range(1, count))}
    names = list(header[: count + 1])
    for n, title in enumerate(header[count + 1 :], count + 1):
        attack, _, name = title.partition(", ")  # ours: TAG, recover %
        groups.setdefault(attack, []).append(n)
        names.append(name)
    paper, *ours = (f"{who}: {joined(names, those)}" for who, those in groups.items())
    lines = []
    for row in rows:
        whole = len(row) == len(header)
        told, *found = (joined(row, those) if whole or those[0] < count else "not here" for those in groups.values())
        lines.append([row[0], told, row[count], *found])
    return [[header[0], paper, "sentences", *ours], *lines]


def joined(cells: Sequence[str], those: Sequence[int]) -> str:
    return " / ".join(short(cells[n]) or "–" for n in those)


def short(figure: str) -> str:
    """100.0 -> 100"""
    return figure.removesuffix(".0")


def as_it_is(header: Sequence[str], rows: Cells) -> Cells:
    return [header, *rows]


LAYOUTS: dict[str, Callable[[Sequence[str], Cells], Cells]] = {
    "dp": of_noise,
    "defenses": of_defenses,
    "decoders": as_it_is,
    "decoders-noise": as_it_is,
}
