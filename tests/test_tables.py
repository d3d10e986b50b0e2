"""The papers' tables: what is written, what is missing, and that nothing is measured twice."""

from dataclasses import replace

import pytest

from demo.bench import defense_tables, paper_tables
from demo.bench import rows as results
from demo.bench.benchmark import main
from demo.bench.paper_tables import TABLES, Line, Table
from demo.bench.sentences import read


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A folder for results, and one with a file of sentences."""
    monkeypatch.setattr(paper_tables, "RESULTS", tmp_path / "results")
    (tmp_path / "cola_dev.tsv").write_text("sentence\tlabel\nTwo dogs bark.\t1\nThe old cat sleeps.\t0\n")
    return tmp_path


def test_every_table_is_whole():
    for table in TABLES.values():
        assert "https://arxiv.org/" in table.source
        assert all(len(line.published) == len(table.columns) for line in table.lines)
        assert len({line.name for line in table.lines}) == len(table.lines)


def test_a_line_stands_beside_the_published_one_and_resumes(house, monkeypatch):
    here, away = TABLES["tag5"].lines[4], TABLES["tag5"].lines[0]
    away = replace(away, published=(1.5,))
    small = Table(
        "T", "a source", "about", ("recover %",), (replace(here, published=(None,)), away), (("all", "best"),)
    )
    monkeypatch.setitem(TABLES, "small", small)
    monkeypatch.setattr(Line, "missing", lambda line: "no hub" if line.name == away.name else None)
    path = paper_tables.make("small", house, 1, 20, str(house / "out.jsonl"))
    header, rows = paper_tables.read(path.stem)
    assert header[:3] == ["T", "recover %", "sentences"]
    assert rows[0][:4] == [here.name, "", "1", "100.0"]
    assert rows[1] == [away.name, "1.5", "0", "not here: no hub"]
    monkeypatch.setattr(results, "result", lambda experiment: pytest.fail("was measured already"))
    paper_tables.make("small", house, 1, 20, str(house / "out.jsonl"))
    assert paper_tables.read("small") == (header, rows)


def test_what_was_not_made_is_empty(house):
    assert paper_tables.read("tag2") == ([], [])


def test_noise_is_told_with_its_privacy(house, monkeypatch):
    monkeypatch.setitem(defense_tables.STUDIES, "dp", ("noise=1e-7", "noise=1"))
    monkeypatch.setattr(defense_tables, "EXPOSED", (("value", (0,)),))
    defense_tables.make("dp", read(house / "cola_dev.tsv")[:1], 4, str(house / "dp.jsonl"))
    header, (weak, strong) = paper_tables.read("dp")
    assert header == list(defense_tables.HEADERS["dp"])
    assert weak[:5] == ["value 0", "1e-07", "none", "1", "100.0"]
    assert strong[:3] == ["value 0", "1", "2.1"]
    assert float(strong[8]) < 0.5 < float(weak[8])


def test_other_defenses_are_told_with_their_cost(house, monkeypatch, capsys):
    monkeypatch.setitem(defense_tables.STUDIES, "defenses", ("prune=0.5", "round=fp16"))
    monkeypatch.setattr(defense_tables, "EXPOSED", (("value", (0,)),))
    command = ["defenses", "--sentences", str(house / "cola_dev.tsv"), "--limit", "1", "--seconds", "4"]
    assert main([*command, "--out", str(house / "defenses.jsonl")]) == 0
    header, (half, whole) = paper_tables.read("defenses")
    assert "| slice | defense |" in capsys.readouterr().out
    assert half[:3] == ["value 0", "prune=0.5", "1"]
    assert whole[:4] == ["value 0", "round=fp16", "1", "100.0"]
    cosine = header.index("cosine")
    assert float(half[cosine]) < float(whole[cosine])


def test_an_unknown_table_is_named(capsys):
    assert main(["tables", "--data", ".", "--out", "x", "--only", "tag9"]) == 2
    assert "unknown table 'tag9'" in capsys.readouterr().err
