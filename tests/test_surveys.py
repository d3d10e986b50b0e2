import json
from dataclasses import replace

import pytest

from demo.client.client import Client
from demo.client.defenses import Noise, Prune, Round
from demo.runs.engine import Experiment
from demo.runs.surveys import STRENGTHS, Reading, cells, survey, sweep
from demo.screen.recordings import FOLDER, SURVEYS
from demo.screen.reports import asked, left, place, reports, row, survey_title, sweep_title
from demo.ui.controls import control_values, experiment_of
from demo.ui.limits import Limits
from demo.ui.survey_tabs import map_place, picked_in, stopped_map, sweep_place

BASE = Experiment("two dogs bark", slice="query", layers=(0,), seconds=5)
DROPPING = Client(dropout=0.1)
DEFENDED = (Noise(1e-3, delta=1e-6), Prune(0.5))


def test_the_map_has_every_place_once():
    places = [(cell.slice, cell.layers) for cell in cells(BASE)]
    assert len(places) == len(set(places)) == 2 + 6 * 6
    assert places[0] == ("embeddings", ())
    assert all(cell.sentence == BASE.sentence for cell in cells(BASE))


def test_a_sweep_is_one_defense_alone_in_each_strength():
    assert [e.defenses for e in sweep(BASE, "noise", (1e-6, 0.5))] == [(Noise(1e-6),), (Noise(0.5),)]
    assert [e.defenses for e in sweep(BASE, "round", STRENGTHS["round"])] == [(Round("fp16"),), (Round("int8"),)]
    for name, strengths in STRENGTHS.items():
        assert len(list(sweep(BASE, name, strengths))) == len(strengths)
    with pytest.raises(ValueError, match="noise_multiplier is 99"):
        list(sweep(BASE, "noise", (99,)))


def test_a_survey_tells_of_every_frame_and_of_every_end(minilm):
    readings = list(survey(sweep(BASE, "round", ("fp16", "int8"))))
    ends = [reading for reading in readings if reading.done]
    assert len(ends) == 2
    assert len(readings) > 6
    assert ends[0].exact
    assert ends[0].text == "two dogs bark"
    assert ends[0].parameters == 147456
    assert ends[0].likeness > ends[1].likeness > 0.9


def test_what_cannot_be_attacked_is_a_reading_with_its_reason(minilm):
    refused, _, fine = [r for r in survey([Experiment("hi", slice="query", layers=(9,)), BASE]) if r.done or r.text][:3]
    assert refused.reason.startswith("layer 9 does not exist")
    assert fine.recover_rate > 0


def test_reports_hold_all_that_is_known(minilm):
    told = list(reports("title", list(sweep(BASE, "round", ("fp16", "int8")))))
    assert [report["over"] for report in told] == [False] * (len(told) - 1) + [True]
    assert [row["strength"] for row in told[-1]["readings"]] == ["fp16", "int8"]
    assert told[-1]["readings"][0]["recover"] == 100
    assert told[0]["now"] is not None
    assert told[-1]["todo"] == [place(e) for e in sweep(BASE, "round", ("fp16", "int8"))]
    json.dumps(told)


@pytest.mark.parametrize(
    ("experiments", "of_place"),
    [
        (list(cells(replace(BASE, attack="search", settings=(("words", 99),), defenses=DEFENDED))), map_place),
        (list(sweep(replace(BASE, layers=(0, 3), labels=(0, 1), client=DROPPING), "noise", (1e-6, 0.5))), sweep_place),
        (list(sweep(replace(BASE, client=DROPPING), "companions", (1, 7))), sweep_place),
    ],
)
def test_a_picked_place_is_the_experiment_that_was_made_there(experiments, of_place):
    """Through the page's own controls: whatever else was changed meanwhile, it is that experiment again."""
    told = asked(experiments[0])
    for experiment in (experiments[1], experiments[-1]):
        picked = picked_in({**place(experiment), "asked": json.loads(json.dumps(told))}, of_place, Limits())
        assert replace(picked, weights=None) == experiment
        through = experiment_of(tuple(control_values(picked)), Limits(), None)
        assert replace(through, labels=experiment.labels) == picked


def test_a_stopped_map_goes_on_with_the_places_that_are_left():
    base = replace(BASE, slice="embeddings", layers=(), seconds=7, seed=3)
    places = list(cells(base))
    read = [row(Reading(one, done=True, recover_rate=1.0)) for one in places[:5]]
    report = json.dumps({"asked": asked(places[0]), "readings": read[::-1]})  # whatever their order
    again, earlier = stopped_map(report, Limits(), "cpu")
    assert again == replace(base, device="cpu", weights=again.weights)
    assert earlier == read
    told = list(
        reports("title", places[5:7], survey=lambda left: (Reading(e, done=True) for e in left), earlier=earlier)
    )
    assert [len(one["readings"]) for one in told] == [6, 7]
    assert told[-1]["readings"][:5] == read
    assert told[-1]["total"] == 7


def test_what_is_no_stopped_map_is_refused():
    told = {"asked": asked(next(cells(BASE)))}
    rows = [{"slice": "embeddings", "layer": None, "text": {"a": 1}}]
    for text in ("", "{}", "[]", "null", json.dumps(told), json.dumps({**told, "readings": rows})):
        with pytest.raises(ValueError, match="press Start"):
            stopped_map(text, Limits(), None)


def test_a_place_that_cannot_be_read_is_refused():
    for wrong in ({}, {"asked": "all"}, {"asked": {"sentence": "hi"}}):
        with pytest.raises(ValueError, match="cannot be read"):
            picked_in(wrong, map_place, Limits())


def test_the_time_left_lies_between_the_latest_pace_and_the_whole_budget():
    assert left([], 3, 20) is None
    assert left([Reading(BASE, seconds=5.0)], 3, 20) == 20
    assert left([Reading(BASE, seconds=1.0)] * 6 + [Reading(BASE, seconds=20.0)] * 6, 13, 20) == 20


@pytest.mark.parametrize("name", SURVEYS)
def test_recorded_surveys_are_of_the_experiments_in_the_table(name):
    report = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    title, experiments = SURVEYS[name]
    assert report["recorded"]
    assert report["over"]
    assert (report["title"], report["budget"]) == (title, experiments[0].seconds)
    assert report["todo"] == [place(experiment) for experiment in experiments]
    assert report["asked"] == asked(experiments[0])
    assert all({**row, **where} == row for row, where in zip(report["readings"], report["todo"], strict=True))


def test_titles_tell_what_a_survey_has_in_common():
    assert survey_title(BASE) == "MiniLM-L6 · best"
    assert sweep_title(BASE) == "MiniLM-L6 · best · attention query of layer 0"
