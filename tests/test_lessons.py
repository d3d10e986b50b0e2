"""Lessons are data: what they name has to be there, and what they say has to be what is recorded."""

import json
import re
from dataclasses import replace

import pytest

from demo.screen.lessons import ASSETS, LINKS, PLACES, for_the_page, glossary, lessons, parts_of
from demo.screen.recordings import RECORDINGS
from demo.ui.controls import control_values, experiment_of
from demo.ui.defense_controls import note_of
from demo.ui.lessons_tab import experiment_for
from demo.ui.limits import Limits

LESSONS = lessons()
STEPS = [(name, n) for name, lesson in LESSONS.items() for n in range(len(lesson.steps))]
PAPERS = {"2103.06819", "2406.00999", "2507.21198", "2405.15586", "1607.00133", "1602.05629"}
ON_THE_PAGE = """gradient, slice, layer, query, key, value, feed-forward, embedding, token, special tokens, certificate,
    span, PCA, dropout, clipping, noise multiplier, epsilon, delta, pruning, recover rate, ROUGE, cosine, batch,
    federated learning, seed"""


def words(name: str, n: int) -> str:
    return "".join(part.words for part in LESSONS[name].steps[n].text)


def ending(name: str) -> dict:
    return json.loads((ASSETS / "recordings" / f"{name}.json").read_text(encoding="utf-8"))["messages"][-1]


def test_there_are_six_in_their_order():
    assert list(LESSONS) == ["gradient", "everything", "matrix", "dropout", "noise", "chat"]
    for lesson in LESSONS.values():
        assert lesson.title
        assert lesson.about
        assert 5 <= len(lesson.steps) <= 8


@pytest.mark.parametrize(("name", "n"), STEPS)
def test_attack_would_repeat_what_a_step_shows(name, n):
    """The controls of each step ask for the very experiment that its recording is of, through the page's own door."""
    step = LESSONS[name].steps[n]
    recorded = RECORDINGS[step.recording]
    asked = experiment_for(step.controls, Limits())
    assert asked == recorded
    through = experiment_of(tuple(control_values(asked)), Limits(), None)
    assert replace(through, weights=None) == asked
    assert through.weights.kind == "pretrained"


@pytest.mark.parametrize(("name", "n"), STEPS)
def test_a_step_is_short_and_points_at_a_frame_that_is_there(name, n):
    step = LESSONS[name].steps[n]
    assert len(words(name, n)) <= 300
    assert all(len(sentence.split()) <= 26 for sentence in re.split(r"[.?:] ", words(name, n)))
    assert step.point in PLACES
    frames = len(json.loads((ASSETS / "recordings" / f"{step.recording}.json").read_text(encoding="utf-8"))["messages"])
    assert step.frame in ("first", "last", "play") or 0 <= step.frame < frames


def test_what_lessons_say_of_recordings_is_what_they_show():
    """Each claim about a recording, beside the recording."""
    for name in ("default", "lesson-all", "lesson-span", "lesson-dropout", "lesson-noise-weak", "lesson-chat"):
        assert ending(name)["end"]["certified"]
    assert ending("lesson-dropout-deep")["end"]["exact"]
    assert not ending("lesson-dropout-deep")["end"]["certified"]
    assert ending("lesson-noise-strong")["frame"]["recover"] == 0
    assert ending("lesson-dlg")["frame"]["recover"] > 0
    assert ending("lesson-dlg")["frame"]["marks"].count("=") <= 1
    growths = json.loads(ending("lesson-chat")["frame"]["growth"])
    [(expected, chance)] = [
        (expected[:2], chance)
        for *_, expected, rows in growths
        for number, word, chance, _ in rows
        if word == "·diabetes"
    ]
    assert expected[0] == "·a"
    assert (round(expected[1]), round(chance, 1)) == (18, 1.5)
    assert note_of("noise", True, 0.1, 1.0, 0.01, 1000, 1e-5).startswith("ε = 9.41e+03 at")
    assert note_of("noise", True, 1.0, 1.0, 0.01, 1000, 1e-5).startswith("ε = 2.1 at")
    for name, cosine in (("lesson-noise-weak", "1.00"), ("lesson-noise-strong", "0.00")):
        start = json.loads((ASSETS / "recordings" / f"{name}.json").read_text(encoding="utf-8"))["messages"][0]["start"]
        assert f"keeps a cosine of {cosine} with the clean one" in start["exposed"]


def test_links_are_known_and_safe():
    addresses = {part.link for lesson in LESSONS.values() for step in lesson.steps for part in step.text if part.link}
    assert addresses <= set(LINKS.values())
    assert addresses - {"#results"} == {f"https://arxiv.org/abs/{paper}" for paper in PAPERS}


def test_the_glossary_explains_the_page():
    known = {word.strip() for term in glossary() for word in term.split(",")}
    assert {word.strip() for word in ON_THE_PAGE.split(",")} <= known
    assert all(meaning.endswith(".") for meaning in glossary().values())


def test_wrong_marks_are_refused_with_what_is_wrong():
    with pytest.raises(ValueError, match="'blancmange' is not in the glossary"):
        list(parts_of("A {blancmange}.", glossary()))
    with pytest.raises(ValueError, match="there is no link 'elsewhere'"):
        list(parts_of("[Here](elsewhere).", glossary()))
    with pytest.raises(ValueError, match="there is no control 'colour'"):
        experiment_for({"colour": "red"}, Limits())


def test_the_page_gets_all_of_it():
    told = json.loads(for_the_page())
    assert told["lessons"]["matrix"]["steps"][0]["recording"] == "lesson-span"
    first = told["lessons"]["gradient"]["steps"][0]["text"]
    assert first[:2] == [{"words": "A ", "term": "", "link": ""}, {"words": "client", "term": "client", "link": ""}]
