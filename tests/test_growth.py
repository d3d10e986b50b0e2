"""How the tree of prefixes grew, as the page is told of it."""

import json

from demo.attacker.attacks.base import Branch, Growth
from demo.runs.engine import Experiment, run, set_up
from demo.screen.comparisons import comparison
from demo.screen.growth import BRANCHES, DEAD, SAID, Growing
from demo.screen.messages import BLANK, messages
from demo.screen.recordings import recorded

SENTENCE = "the patient was diagnosed with diabetes last week"
BATCH = f"{SENTENCE}\nthe patient went home\nmy password is hunter two"


def frames(experiment, gap=0.0):
    return [message["frame"] for message in messages(experiment, gap=gap) if "frame" in message]


def grown(frame):
    return json.loads(frame["growth"]) if "growth" in frame else []


def living(told):
    """Every branch that was told of -> the word and the prefix that it grows on."""
    found = {}
    for frame in told:
        for parent, _, _, _, rows in grown(frame):
            found |= {number: (parent, word) for number, word, *_ in rows if number}
    return found


def paths(branches):
    """The words on the way to each branch that no other grows on."""

    def path(number):
        parent, word = branches[number]
        return [*(path(parent) if parent else []), word]

    return sorted(path(number) for number in branches if number not in {parent for parent, _ in branches.values()})


def test_the_sentence_is_spelt_by_its_branches(played, toy):
    told = frames(played(SENTENCE))
    assert paths(living(told)) == [told[-1]["tokens"]] == [SENTENCE.split()]
    assert all(len(paths(living(told[: n + 1]))) <= 1 for n in range(len(told)))
    assert len(paths(living(told[:3]))[0]) < 4  # it is told as it grows


def test_a_batch_is_a_tree(played):
    told = frames(played(BATCH))
    assert paths(living(told)) == sorted(line.split() for line in BATCH.splitlines())
    roots = {word for parent, word in living(told).values() if not parent}
    assert roots == {"the", "my"}  # what two sentences share is one branch


def test_frames_that_are_not_shown_lose_no_branch(played):
    """A screen that is told of every other frame only has the whole tree."""
    told = frames(played(BATCH), gap=1e9)
    assert [frame["step"] for frame in told] == [1, 3, 5, 7, 8]
    assert paths(living(told)) == sorted(line.split() for line in BATCH.splitlines())


def test_a_page_that_misses_frames_hears_of_them_later(played):
    told = frames(played(SENTENCE))
    assert living(told[SAID - 1 : SAID]) == living(told[:SAID])
    assert living(told[-1:]) == living(told)  # the last one tells it all


def test_what_a_growth_says(played):
    [[parent, place, tried, expected, rows]] = [
        growth for growth in grown(frames(played(SENTENCE))[3]) if growth[1] == 1
    ]
    assert (parent, place, tried) == (1, 1, 1024)
    assert expected[1:] == [31, 0.4]  # percent, and how far it sticks out
    assert rows[0] == [2, "patient", 0.4, 1e-07]
    assert [row[0] for row in rows[1:]] == [0] * DEAD
    assert [row[3] for row in rows[1:]] == [0.1, 0.2, 0.3]  # the nearest of five


def test_a_growth_is_small(played):
    for frame in frames(played(BATCH)):
        for growth in grown(frame):
            assert len(json.dumps(growth, separators=(",", ":"))) <= 300


def test_words_that_came_near_later_are_kept_and_a_revived_one_is_no_longer_dead():
    told = Growing(lambda ids: [f"w{id}" for id in ids])
    expected = Branch(0, 9, 0, float("nan"), 0.5)
    told.add([Growth(0, 0, 10, expected, (Branch(0, 1, 0, 0.1, 0.0), Branch(0, 2, 0, 0.2, 0.0)))])
    told.add([Growth(0, 0, 20, expected, (Branch(0, 3, 0, 0.05, 0.0), Branch(0, 1, 7, 1e-9, 0.0)))])
    [[_, _, tried, favourite, rows]] = json.loads(told.told()["growth"])
    assert tried == 20
    assert favourite == ["w9", 50, None]  # nobody has looked how far that one sticks out
    assert [row[:2] for row in rows] == [[7, "w1"], [0, "w3"], [0, "w2"]]


def test_a_frame_is_told_of_so_many_branches_and_the_next_one_of_the_rest():
    told = Growing(lambda ids: [f"w{id}" for id in ids])
    expected = Branch(0, 9, 0, 0.5, 0.5)
    count = 3 * BRANCHES
    told.add([Growth(n, n, 1, expected, (Branch(n, 1, n + 1, 0.0, 0.0),)) for n in range(count)])
    portions = [json.loads(told.told()["growth"]) for _ in range(3)]
    assert [len(portion) for portion in portions] == [BRANCHES] * 3
    assert [growth[0] for portion in portions for growth in portion] == list(range(count))


def test_runs_of_other_attacks_have_no_tree(minilm):
    told = frames(Experiment(SENTENCE, slice="query", layers=(0,), attack="span", device="cpu"))
    assert not any("growth" in frame for frame in told)


def test_a_guess_that_is_shown_again_does_not_grow_again(played):
    case = set_up(played(SENTENCE))
    assert [len(frame.snapshot.growth) for frame in run(played(SENTENCE), case)].count(1) == len(SENTENCE.split())


def test_recordings_keep_the_tree_and_comparisons_leave_it_out(played):
    told = [message for message in messages(played(SENTENCE), gap=0) if "frame" in message]
    kept = json.loads(recorded(told))["messages"]
    assert [message["frame"].get("growth") for message in kept] == [message["frame"].get("growth") for message in told]
    compared = list(comparison(played(SENTENCE), played(SENTENCE, seed=1)))
    assert not any("growth" in frame for message in compared for frame in message.get("frames", {}).values())


def test_a_model_without_marks_has_a_tile_for_every_token(played, toy):
    """No [CLS] and [SEP] stand at the ends: the first and the last word are words."""
    told = frames(played(f"{SENTENCE}\nwe went home"))
    words = [*SENTENCE.split(), "we", "went", "home"]
    assert told[0]["tokens"] == ["the", *[BLANK] * 7, "we", *[BLANK] * 2]
    assert told[-1]["tokens"] == words
    assert told[-1]["marks"] == "=" * len(words)
    assert {len(told[-1][name]) for name in ("sure", "others", "points")} == {len(words)}
    assert [frame["candidates"]["place"] for frame in told[:-1:2]] == [1, 3, 5, 7]  # counted as words are
