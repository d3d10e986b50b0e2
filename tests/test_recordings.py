import json

import pytest

from demo.messages import messages
from demo.models import outline
from demo.recordings import FOLDER, RECORDINGS, recorded


@pytest.mark.parametrize("name", RECORDINGS)
def test_recordings_are_real_runs_of_their_experiment(name):
    """Each file in assets is of the experiment in the table, moves, and ends in its sentence's own tokens."""
    run = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["messages"]
    start, experiment = run[0]["start"], RECORDINGS[name]
    model = outline(experiment.model)
    assert start["recorded"]
    assert start["truth"] == model.tokens(model.encode(experiment.sentence)[1:-1])
    assert len(run) > 10
    assert len({json.dumps(message["frame"]["tokens"]) for message in run}) > 5
    assert "end" in run[-1]
    if run[-1]["end"]["certified"]:
        assert run[-1]["frame"]["tokens"] == start["truth"]


def test_a_recording_says_start_once_and_loses_nothing(minilm):
    told = list(messages(RECORDINGS["default"]))
    kept = json.loads(recorded(told))["messages"]
    assert [message["frame"] for message in kept] == [message["frame"] for message in told]
    assert [n for n, message in enumerate(kept) if "start" in message] == [0]
    assert kept[-1]["end"] == told[-1]["end"]
