import pickle

import pytest

from demo.attacker.attacks.base import UNKNOWN_LENGTH
from demo.client.client import Client
from demo.client.defenses import parse
from demo.runs.engine import Experiment, attack_of, run, set_up

SENTENCE = "The cat sat on the mat."


def test_a_run_from_sentence_to_certificate(minilm):
    frames = list(run(Experiment(SENTENCE, slice="query", layers=(2,), device="cpu")))
    assert frames[-1].text == "the cat sat on the mat."
    assert frames[-1].certified
    assert frames[-1].scores.exact
    assert frames[0].scores.position_accuracy < 1
    assert frames[-1].best_recover_rate == 1
    seconds = [frame.snapshot.seconds for frame in frames]
    assert seconds == sorted(seconds)
    assert pickle.loads(pickle.dumps(frames[-1])).scores == frames[-1].scores


def test_best_iteration_is_kept(minilm):
    """TAG's recover rate is that of the best iteration, not of the last."""
    frames = list(run(Experiment(SENTENCE, slice="encoder", attack="dlg", steps=15, device="cpu")))
    rates = [frame.scores.recover_rate for frame in frames]
    assert [frame.best_recover_rate for frame in frames] == [max(rates[: n + 1]) for n in range(len(rates))]


def test_case_holds_both_sides(minilm):
    case = set_up(Experiment(SENTENCE, slice="query", layers=(2,), device="cpu"))
    assert (case.parameters, round(100 * case.parameter_share, 2)) == (147_456, 0.65)
    assert len(case.secret.ids) == case.leak.length == 9


def test_experiments_are_values():
    assert Experiment(SENTENCE) == Experiment(SENTENCE)
    assert len({Experiment(SENTENCE), Experiment(SENTENCE), Experiment("other")}) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sentence": "  "}, "sentence is empty"),
        ({"sentence": "word " * 600}, "602 tokens, but minilm reads at most 512"),
        ({"model": "gpt"}, "unknown model 'gpt'"),
        ({"slice": "bias"}, "unknown slice 'bias'"),
        ({"layers": (9,)}, "layer 9 does not exist"),
        ({"attack": "magic"}, "unknown attack 'magic'"),
        ({"labels": (7,)}, "label 7 does not exist"),
        ({"seconds": 0}, "budget is empty"),
        ({"attack": "span"}, "span cannot attack this: no attention matrix"),
    ],
)
def test_errors_name_the_input(minilm, change, message):
    with pytest.raises(ValueError, match=message):
        next(run(Experiment(**{"sentence": SENTENCE, "device": "cpu", **change})))


@pytest.mark.parametrize(
    "choice",
    [
        # The length cannot be read through pruning and noise: a wrong one used to break the run off.
        {"slice": "ffn-out", "layers": (0,), "attack": "cosine", "knows_length": False,
         "defenses": (parse("noise=1e-3"), parse("prune=0.9"))},
        # What dropout leaves of this matrix makes a system of equations singular.
        {"slice": "value", "layers": (1,), "attack": "grab", "client": Client(0.1)},
        # It drops out attention alone, so that no mask tells of embeddings.
        {"model": "llama-tiny", "slice": "head", "layers": (), "attack": "grab", "client": Client(0.3)},
        {"model": "llama-tiny", "slice": "ffn-out", "layers": (1,), "attack": "grab",
         "client": Client(0.3, task="label")},
    ],
)  # fmt: skip
def test_an_internal_error_is_never_the_answer(choice):
    """Either a refusal that says why, or a run to its end."""
    experiment = Experiment(SENTENCE, **{"model": "tinybert4", "seconds": 3, **choice})
    case = set_up(experiment)
    refused = attack_of(experiment).supports(case.leak)
    if refused:
        assert refused == UNKNOWN_LENGTH
    else:
        *_, last = run(experiment, case)
        assert last.texts
