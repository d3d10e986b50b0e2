"""What the screen says is true: whose sentence it is, what could not be read, in which units, and how sure."""

from dataclasses import replace

import pytest
import torch

from demo.attacker.attacks.base import Budget, snapshot
from demo.attacker.attacks.chances import CURVES, chances
from demo.attacker.attacks.objectives import NATS, OBJECTIVES, SPAN, VECTOR
from demo.attacker.certificate import Certificate
from demo.bench.calibration import Words, diet, fitted, reliability
from demo.bench.sentences import Example
from demo.client.client import Client
from demo.client.defenses import parse
from demo.runs.engine import Experiment, scored, set_up
from demo.screen.messages import Show, messages
from demo.screen.verdicts import verdict

SENTENCE = "The cat sat on the mat."


def shown(experiment, guess, **what):
    """The message and the verdict of a run that ends with these sentences."""
    case = set_up(experiment)
    ids = torch.cat(
        [case.model.encode(sentence) if isinstance(sentence, str) else sentence for sentence in guess(case)]
    )
    shot = snapshot(case.model, Budget(60), 1, ids, 0.5, "by hand", **what)
    frame = scored(case, shot, 0.0)
    show = Show(experiment, case)
    return show.start(), show.frame(0, frame), *verdict(frame, case, experiment)


@pytest.fixture
def averaged():
    return Experiment(SENTENCE, slice="value", layers=(0,), client=Client(companions=1))


def wrong(ids):
    """A guess of the same length in which no word is right."""
    guess = ids.clone()
    guess[1:-1] = 2000
    return guess


def test_another_clients_sentence_is_a_leak(minilm, averaged):
    start, frame, headline, detail = shown(
        averaged, lambda case: [case.everyone.sentences[1], wrong(case.everyone.sentences[0])]
    )
    ours, theirs = start["truth"][: start["breaks"][0]], start["truth"][start["breaks"][0] :]
    assert start["whose"] == ["yours", "client 2"]
    assert frame["tokens"][len(ours) :] == theirs
    assert frame["marks"] == "x" * len(ours) + "=" * len(theirs)
    assert headline.startswith("1 of 2 clients' sentences recovered, but not yours")
    assert f"{len(theirs)} of {len(ours) + len(theirs)} tokens in place" in detail


def test_whose_sentence_came_back_is_said(minilm, averaged):
    *_, headline, _ = shown(averaged, lambda case: [case.everyone.sentences[0], wrong(case.everyone.sentences[1])])
    assert headline.startswith("1 of 2 clients' sentences recovered, yours among them")
    *_, headline, _ = shown(averaged, lambda case: [wrong(ids) for ids in case.everyone.sentences])
    assert headline.startswith("Not recovered")


def test_what_a_model_cannot_read_is_not_called_the_sentence(minilm):
    proof = Certificate(0.0)
    experiment = Experiment("I paid 😀 today", slice="query", layers=(2,))
    *_, headline, detail = shown(experiment, lambda case: case.secret.sentences, certificate=proof)
    assert headline.startswith("Certified, as far as the model can read it")
    assert "[UNK]" in detail
    assert "nobody can tell from the gradient what they were" in detail
    readable = replace(experiment, sentence="I paid today")
    *_, headline, detail = shown(readable, lambda case: case.secret.sentences, certificate=proof)
    assert headline.startswith("Certified: ")
    assert "[UNK]" not in detail


def test_under_noise_evidence_is_plotted_beside_that_of_the_truth(minilm):
    """Squares of differences would sit at the noise's own size, whatever the guess is."""
    experiment = Experiment(
        SENTENCE, slice="query", layers=(1,), defenses=(parse("noise=1e-5"),), seconds=600, steps=40
    )
    told = [message for message in messages(experiment, gap=0) if "frame" in message]
    nats = next(objective for objective in told[0]["start"]["objectives"] if objective["name"] == NATS.name)
    values = [m["frame"]["objective"] for m in told if m["frame"]["meaning"] == NATS.name and m["frame"]["objective"]]
    assert "nats" in nats["title"]
    assert not nats["log"]
    assert values
    assert max(values) <= nats["goal"] * 1.001  # no guess makes the leak likelier than the truth does
    assert max(values) > 0


def test_a_budget_that_was_kept_for_weighing_is_spent_too(minilm):
    experiment = Experiment(SENTENCE, slice="query", layers=(1,), defenses=(parse("noise=1e-2"),), seconds=2)
    *_, last = (message for message in messages(experiment) if "frame" in message)
    assert last["end"]["headline"] == "Not recovered: the budget is spent."


def test_every_objective_has_a_title_of_its_own():
    assert len({objective.title for objective in OBJECTIVES}) == len(OBJECTIVES)
    assert len({objective.name for objective in OBJECTIVES}) == len(OBJECTIVES)


def test_a_curve_that_is_not_the_verdicts_figure_is_said_to_be_another(minilm):
    proof = Certificate(0.0)
    experiment = Experiment(SENTENCE, slice="query", layers=(2,))
    *_, detail = shown(experiment, lambda case: case.secret.sentences, certificate=proof, meaning=SPAN)
    assert "The curve shows another figure" in detail


# -- how sure ----------------------------------------------------------------------------------------------------------


def guessed(model, meaning, objective, confidence, **what):
    ids = model.encode(SENTENCE)
    sure = torch.full((len(ids),), confidence)
    return snapshot(model, Budget(60), 1, ids, objective, "", confidence=sure, meaning=meaning, **what)


def test_a_certificate_is_as_sure_as_it_gets(tiny):
    proof = Certificate(0.0)
    assert chances(guessed(tiny, SPAN, 0.5, 0.01, certificate=proof)).min() == 1
    assert chances(guessed(tiny, SPAN, 0.5, 0.01)).max() < 1


@pytest.mark.parametrize("meaning", [SPAN, VECTOR])
def test_a_better_guess_is_surer(tiny, meaning):
    unsure, sure = (float(chances(guessed(tiny, meaning, 0.5, confidence))[1]) for confidence in (0.1, 0.9))
    near, far = (float(chances(guessed(tiny, meaning, objective, 0.5))[1]) for objective in (1e-3, 1.0))
    assert unsure < sure
    assert far < near


@pytest.mark.parametrize("objective", [float("inf"), float("nan"), 0.0, -3.0])
@pytest.mark.parametrize("meaning", OBJECTIVES)
def test_chances_are_chances_whatever_the_score(tiny, meaning, objective):
    for confidence in (0.0, 0.3, 1.0):
        chance = chances(guessed(tiny, meaning, objective, confidence))
        assert bool(((chance >= 0) & (chance <= 1)).all())


def test_the_fit_finds_a_known_curve():
    """Words drawn from a curve: the fit finds it again, and says of 30 % that 30 % are right."""
    draws = torch.Generator().manual_seed(0)
    features = torch.randn(20_000, 2, generator=draws, dtype=torch.float64)
    true = torch.sigmoid(-0.5 + features @ torch.tensor([1.5, 0.7], dtype=torch.float64))
    right = torch.rand(len(true), generator=draws) < true
    proven = torch.zeros(len(true), dtype=torch.bool)
    words = [[Words("span", features, right, proven)]]
    curves = fitted(words)
    assert curves["span"] == pytest.approx((-0.5, 1.5, 0.7), abs=0.08)
    rows = [line.strip("| ").split(" | ") for line in reliability(words, curves).splitlines()[2:]]
    assert len(rows) == 10
    assert all(abs(float(mean) - float(share)) < 6 for _, _, mean, share in rows)


def test_every_run_of_the_calibration_is_another_sentence():
    examples = [Example(f"sentence number {n}", 1, n) for n in range(40)]
    drawn = diet(examples, 20, 2)
    assert len({experiment.sentence for experiment in drawn}) == 20
    assert drawn == diet(examples, 20, 2)
    assert drawn != diet(examples, 20, 2, seed=1)


def test_every_kind_of_score_that_was_measured_has_a_curve_that_rises():
    assert CURVES.keys() <= {objective.name for objective in OBJECTIVES}
    assert all(own >= 0 for _, own, _ in CURVES.values())


def test_tiles_show_chances_of_what_is_guessed(minilm):
    experiment = Experiment(SENTENCE, slice="query", layers=(2,))
    case = set_up(experiment)
    ids = minilm.encode(SENTENCE)
    ids[2] = minilm.tokenizer.mask_token_id  # nothing yet
    shot = snapshot(minilm, Budget(60), 1, ids, 0.1, "", confidence=torch.full((len(ids),), 0.3), meaning=SPAN)
    told = Show(experiment, case).frame(0, scored(case, shot, 0.0))
    expected = [round(100 * float(chance)) for chance in chances(shot)[1:-1]]
    assert expected[0] > 0
    assert told["sure"] == [expected[0], 0, *expected[2:]]
