"""Reads sentences to attack from a file: plain text, .tsv/.csv with a header, or CoLA's headerless four columns."""

import csv
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Example:
    """One sentence, its label, and its line in the file (from 1), by which errors name it."""

    sentence: str
    label: int
    line: int


def read(file: str | Path, column: str = "sentence", min_words: int = 0, max_words: int | None = None) -> list[Example]:
    """All examples whose number of words lies in the range.

    "0<tab>1<tab><tab>The cat sat." (CoLA) -> Example("The cat sat.", 1, …)
    """
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"no such file: {path}")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as problem:
        raise ValueError(f"{path} is not UTF-8 text") from problem
    examples = _table(lines, path, column) if path.suffix in (".tsv", ".csv") else _plain(lines)
    limit = max_words if max_words is not None else float("inf")
    kept = [e for e in examples if min_words <= len(e.sentence.split()) <= limit]
    if not kept:
        raise ValueError(f"{path} holds no sentence of {min_words} to {max_words or 'any number of'} words")
    return kept


def _plain(lines: list[str]) -> list[Example]:
    return [Example(line.strip(), 1, number) for number, line in enumerate(lines, 1)]


def _table(lines: list[str], path: Path, column: str) -> list[Example]:
    tabs = path.suffix == ".tsv"
    rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE) if tabs else csv.reader(lines))
    if not rows:
        raise ValueError(f"{path} is empty")
    header = rows[0]
    if column in header:
        body = rows[1:]
        text, label = header.index(column), header.index("label") if "label" in header else None
        first = 2
    elif len(header) == 4 and header[1] in ("0", "1"):  # CoLA: source, label, the author's mark, sentence
        body, text, label, first = rows, 3, 1, 1
    else:
        raise ValueError(f"{path} has no column {column!r}; its columns are {', '.join(header)}")
    names = sorted({row[label] for row in body if len(row) > label}) if label is not None else []
    examples = []
    for number, row in enumerate(body, first):
        if len(row) <= max(text, label or 0):
            raise ValueError(f"{path}, line {number}: {len(row)} columns where {len(header)} were expected")
        value = row[label] if label is not None else "1"
        examples.append(Example(row[text].strip(), int(value) if value.isdigit() else names.index(value), number))
    return examples
