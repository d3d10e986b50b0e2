import json

import pytest

from demo.bench import sentences
from demo.bench.benchmark import main
from demo.bench.our_claims import CLAIMS, table

KEYS = {
    "sentence", "reconstruction", "model", "slice", "layers", "attack", "exact", "certified", "recover_rate",
    "position_accuracy", "rouge1", "rouge2", "rougeL", "seconds", "steps", "parameters", "parameter_share",
}  # fmt: skip


@pytest.fixture
def three(tmp_path):
    file = tmp_path / "three.txt"
    file.write_text("The cat sat.\nA dog barked at me.\nShe left.\n")
    return file


def attack(*arguments):
    return main(["attack", "--slice", "query", "--layer", "0", "--device", "cpu", *map(str, arguments)])


def test_attack_prints_and_writes_a_row_per_sentence(three, tmp_path, capsys, minilm):
    out = tmp_path / "rows.jsonl"
    assert attack("--sentences", three, "--max-words", 3, "--attack", "span", "--out", out) == 0
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert rows == [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["reconstruction"] for row in rows] == ["the cat sat.", "she left."]
    assert all(row.keys() >= KEYS and row["exact"] and row["certified"] for row in rows)
    assert rows[0]["layers"] == [0]
    assert "2 sentences: exact 100.0 %" in printed.err


def test_attack_resumes(three, tmp_path, capsys, minilm):
    """Rows in the file are not measured again: a changed one stays as it is."""
    out = tmp_path / "rows.jsonl"
    assert attack("--sentences", three, "--limit", 1, "--out", out) == 0
    row = json.loads(out.read_text())
    out.write_text(json.dumps({**row, "seconds": 123.0}) + "\n")
    capsys.readouterr()
    assert attack("--sentences", three, "--limit", 2, "--out", out) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0]["seconds"] == 123.0
    assert len(rows) == len(out.read_text().splitlines()) == 2


def test_attack_in_batches_with_dropout(three, tmp_path, capsys, minilm):
    assert main(["attack", "--sentences", str(three), "--batch", "2", "--slice", "all", "--device", "cpu"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["batch"] for row in rows] == [2, 1]  # the last batch is what is left
    assert rows[0]["reconstruction"] == "the cat sat.\na dog barked at me."
    assert rows[0]["exact"]
    assert attack("--sentences", three, "--limit", 1, "--dropout", "own", "--frozen-embeddings") == 0
    (row,) = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (row["attack"], row["dropout"], row["frozen_embeddings"], row["exact"]) == ("best", None, True, True)
    assert row["masks_right"] > 0.97


def test_settings_are_changed_by_name(three, capsys, minilm):
    grab = ["--sentences", three, "--limit", 1, "--attack", "grab", "--steps", 2]
    assert attack(*grab, "--set", "start=noise", "--set", "masks=false", "--set", "rows=2") == 0
    (row,) = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert row["settings"] == [["start", "noise"], ["masks", False], ["rows", 2]]
    for wrong, message in (("masks=maybe", "true or false"), ("rows=few", "give a number"), ("x=1", "no setting 'x'")):
        assert attack(*grab, "--set", wrong) == 2
        assert message in capsys.readouterr().err


def test_a_failing_sentence_loses_nothing(tmp_path, capsys, minilm):
    file, out = tmp_path / "mixed.txt", tmp_path / "rows.jsonl"
    file.write_text("The cat sat.\n\n" + "word " * 600 + "\nShe left.\n")
    assert attack("--sentences", file, "--out", out) == 2
    errors = capsys.readouterr().err
    assert "sentence is empty" in errors
    assert "602 tokens" in errors
    assert [json.loads(line)["sentence"] for line in out.read_text().splitlines()] == ["The cat sat.", "She left."]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["attack", "--sentences", "nowhere.txt"], "no such file"),
        (["attack", "--sentences", "x", "--slice", "bias"], "invalid choice: 'bias'"),
        (["attack", "--sentences", "x", "--layer", "two"], "'two' is not a layer"),
        (["attack", "--sentences", "x", "--limit", "0"], "not a number of 1 or more"),
        (["attack"], "--sentences"),
        (["speed", "--slice", "query", "--layer", "99", "--model", "transformer"], "layer 99 does not exist"),
        (["attack", "--sentences", "x", "--dropout", "much"], "'much' is not a rate"),
        (["attack", "--sentences", "x", "--batch", "0"], "not a number of 1 or more"),
        (["claims", "--sentences", "x", "--out", "y", "--only", "moon"], "unknown claim 'moon'"),
        ([], "command"),
    ],
)
def test_wrong_arguments_end_with_two(arguments, message, capsys):
    try:
        code = main(arguments)
    except SystemExit as end:  # argparse's own way
        code = end.code
    assert code == 2
    assert message in capsys.readouterr().err


def test_speed_reports_ratios(capsys):
    arguments = [
        "--model",
        "transformer",
        "--slice",
        "all",
        "--device",
        "cpu",
        "--rounds",
        "2",
        "--no-growth",
        "--json",
    ]
    assert main(["speed", *arguments]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report["matcher_ms"]) == set(report["ratio_per_candidate"]) == {"1", "8", "16"}
    for rows, ratio in report["ratio_per_candidate"].items():
        assert ratio == pytest.approx(report["plain_ms"] / report["matcher_ms"][rows])
    assert report["plain_peak_mb"] > 1
    assert all(peak > 1 for peak in report["matcher_peak_mb"].values())


def test_claims_are_measured_by_the_table(three, tmp_path, capsys, minilm):
    out = tmp_path / "claims.jsonl"
    assert main(["claims", "--sentences", str(three), "--out", str(out), "--only", "span", "--limit", "1"]) == 0
    assert "| query 0 | 1 | 100.0 | 100.0 (100.0) | 100.0 |" in capsys.readouterr().out
    assert len(out.read_text().splitlines()) == 3


def test_every_cell_of_the_components_is_claimed():
    cells = {(x.slice, x.layers) for x in CLAIMS["components"].experiments}
    assert len(cells) == 30
    wrong = {"slice": "query", "layers": [1], "certified": True, "exact": False, "seconds": 1.0}
    scores = ("recover_rate", "best_recover_rate", "position_accuracy", "rouge1", "rouge2", "rougeL")
    wrong |= dict.fromkeys((*scores, "rouge1_specials", "rouge2_specials", "rougeL_specials"), 0.5)
    assert table([wrong], CLAIMS["span"].by).splitlines()[-1].endswith("| 1 |")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("plain.txt", "One two.\n Three \n", [("One two.", 1), ("Three", 1)]),
        ("head.tsv", 'sentence\tlabel\na "b\t0\nc\t1\n', [('a "b', 0), ("c", 1)]),
        ("head.csv", 'id,sentence\n1,"a, b"\n', [("a, b", 1)]),
        ("words.tsv", "sentence\tlabel\na\tyes\nb\tno\n", [("a", 1), ("b", 0)]),
        ("cola.tsv", "gj04\t1\t\tThe cat.\ngj04\t0\t*\tCat the.\n", [("The cat.", 1), ("Cat the.", 0)]),
    ],
)
def test_sentence_files(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text)
    assert [(e.sentence, e.label) for e in sentences.read(tmp_path / name)] == expected


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "text\tlabel\nx\t1\n", "no column 'sentence'; its columns are text, label"),
        ("b.tsv", "sentence\tlabel\nx\n", "line 2: 1 columns where 2 were expected"),
        ("c.txt", "", "holds no sentence"),
        ("d.csv", "", "is empty"),
    ],
)
def test_bad_sentence_files(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        sentences.read(tmp_path / name)
