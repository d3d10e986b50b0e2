import json

import pytest
from pydantic import ValidationError

from demo.screen.messages import messages, title
from demo.screen.recording_format import FORMAT, SHAPES, VERSION, Recording, script
from demo.screen.recordings import FOLDER, RECORDINGS, recorded
from demo.victim.models import load


@pytest.mark.parametrize("name", RECORDINGS)
def test_recordings_are_real_runs_of_their_experiment(name):
    """Each file in assets is of the experiment in the table, small, moves, and ends in its sentence's own tokens."""
    text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert len(text) < 120_000
    file = json.loads(text)
    assert (file["format"], file["version"]) == (FORMAT, VERSION)
    run = file["messages"]
    start, experiment = run[0]["start"], RECORDINGS[name]
    model = load(experiment.model, device="cpu")
    assert start["recorded"]
    assert start["title"] == title(experiment, model)
    assert start["truth"] == model.tokens(model.inner(model.encode(experiment.sentence)))
    if name != "lesson-all":  # which is read off in one step
        assert len(run) >= 10
        assert len({json.dumps(message["frame"]["tokens"]) for message in run}) > 5
    assert "end" in run[-1]
    if run[-1]["end"]["certified"]:
        assert run[-1]["frame"]["tokens"] == start["truth"]


def test_a_recording_says_start_once_and_loses_nothing(minilm):
    told = [message for message in messages(RECORDINGS["default"]) if "frame" in message]
    kept = json.loads(recorded(told))["messages"]
    assert [message["frame"] for message in kept] == [message["frame"] for message in told]
    assert [n for n, message in enumerate(kept) if "start" in message] == [0]
    assert kept[-1]["end"] == told[-1]["end"]


def plain(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def test_the_browser_checks_by_the_same_shapes():
    """`python -m demo.screen.recording_format` writes them."""
    assert SHAPES.read_text(encoding="utf-8") == script()


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_format_knows_every_field_that_is_told(name):
    file = plain(name)
    assert Recording.model_validate_json(json.dumps(file)).model_dump(mode="json", exclude_unset=True) == file


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tokens", list(range(9))),
        ("stage", {"toString": 1}),
        ("points", [[0, 0]] * 9),
        ("points", [[1e300, 0, 0]] * 9),
        ("marks", "<b>======"),
        ("masks", ["%%%%"] * 9),
        ("tokens", ["x" * 300] * 9),
        ("recover", True),
        ("n", "1"),
        ("objective", float("nan")),
    ],
)
def test_what_the_browser_would_refuse_is_refused(field, value):
    file = plain("lesson-dropout")
    file["messages"][3]["frame"][field] = value
    with pytest.raises(ValidationError) as problem:
        Recording.model_validate_json(json.dumps(file))
    assert problem.value.errors()[0]["loc"][:4] == ("messages", 3, "frame", field)
