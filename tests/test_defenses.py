"""Each defense beside its definition, what it changes for the attacker, and what attacks make of it."""

import itertools
import math

import pytest
import torch
from opacus.accountants import RDPAccountant
from opacus.optimizers import DPOptimizer

from demo.attacker.attacks import ATTACKS, Budget
from demo.attacker.attacks.base import weighed
from demo.attacker.certificate import certify
from demo.attacker.subspace import basis_of, completed
from demo.client.defenses import (
    DEFENSES,
    Mask,
    Noise,
    Prune,
    Round,
    Sign,
    defended,
    parse,
    strength_of,
    told_of,
)
from demo.client.secret import STRANGERS, Secret
from demo.client.share import share
from demo.runs.engine import Experiment, run, set_up
from demo.settings import settings_of
from demo.victim.gradients import likeness
from demo.victim.slices import select
from tests.conftest import LONG

SENTENCE = "the nurse gave the old man his pills"
EVERY = (Noise(1e-3), Noise(0.0), Prune(0.9), Mask(0.5), Round("fp16"), Round("int8"), Sign())


def leak_of(model, defenses, name="query", layers=(1,), sentence="the dog bit the man", **more):
    ids = [model.encode(line) for line in sentence.splitlines()]
    secret = Secret.of(model, ids, [1] * len(ids))
    return share(model, secret, select(model, name, layers), defenses=defenses, **more)


def last(name, leak, seconds=LONG):
    *_, shot = ATTACKS[name].run(leak, Budget(seconds), 0)
    return shot


# -- the definitions -------------------------------------------------------------------------------------------------


def examples(count, size=3000):
    generator = torch.Generator().manual_seed(4)
    scales = torch.linspace(0.001, 0.2, count)
    return [
        {"a": torch.randn(size, generator=generator) * s, "b": torch.randn(7, 5, generator=generator) * s}
        for s in scales
    ]


def test_clipping_is_opacus(monkeypatch):
    """Per example, over all parameters, then the mean: what Opacus' optimizer leaves in .grad when it adds no noise."""
    batch = examples(4)
    parameters = [torch.nn.Parameter(torch.zeros_like(batch[0][name])) for name in ("a", "b")]
    for parameter, name in zip(parameters, ("a", "b"), strict=True):
        parameter.grad_sample = torch.stack([example[name] for example in batch])
    theirs = DPOptimizer(
        torch.optim.SGD(parameters, lr=1.0), noise_multiplier=0.0, max_grad_norm=1.0, expected_batch_size=4
    )
    theirs.pre_step()
    ours = defended(batch, (Noise(0.0, 1.0),), ("a", "b"), torch.Generator())
    for parameter, name in zip(parameters, ("a", "b"), strict=True):
        torch.testing.assert_close(ours[name], parameter.grad, rtol=1e-4, atol=1e-7)  # theirs divides by norm + 1e-6
    assert max(float(e["a"].norm()) for e in batch) > 1 > min(float(e["a"].norm()) for e in batch)


def test_noise_is_opacus():
    """Its standard deviation on the mean is noise multiplier times norm over batch, in every tensor."""
    batch, defense = examples(4, 200_000), Noise(0.5, 2.0)
    clean = defended(batch, (Noise(0.0, 2.0),), ("a", "b"), torch.Generator())
    noisy = defended(batch, (defense,), ("a", "b"), torch.Generator().manual_seed(1))
    added = noisy["a"] - clean["a"]
    assert float(added.std()) == pytest.approx(0.5 * 2.0 / 4, rel=0.01)
    assert abs(float(added.mean())) < 0.002
    assert defense.blur(noisy["a"], 4) == 0.25


@pytest.mark.parametrize(("sigma", "rate", "steps", "delta"), [(1.0, 0.01, 1000, 1e-5), (0.7, 0.1, 50, 1e-6)])
def test_epsilon_is_the_accountants(sigma, rate, steps, delta):
    oracle = RDPAccountant()
    for _ in range(steps):
        oracle.step(noise_multiplier=sigma, sample_rate=rate)
    ours = Noise(sigma, sampling_rate=rate, steps=steps, delta=delta).epsilon
    assert ours == pytest.approx(oracle.get_epsilon(delta))


def test_no_noise_buys_no_privacy():
    assert Noise(0.0).epsilon == math.inf
    assert Noise(1e-4).epsilon == math.inf
    assert Noise(0.5).epsilon > Noise(2.0).epsilon > 0


def test_pruning_keeps_the_largest():
    value = torch.tensor([[0.1, -3.0], [2.0, 0.5]])
    (kept,) = Prune(0.5).cover({"a": value}, 1, torch.Generator()).values()
    assert kept.tolist() == [[0, -3.0], [2.0, 0]]


def test_masking_is_random_and_does_not_look():
    value = torch.randn(400, 400, generator=torch.Generator().manual_seed(0))
    (kept,) = Mask(0.3).cover({"a": value}, 1, torch.Generator().manual_seed(2)).values()
    gone = kept == 0
    assert float(gone.float().mean()) == pytest.approx(0.3, abs=0.01)
    assert float(value[gone].abs().mean()) == pytest.approx(float(value.abs().mean()), rel=0.02)
    assert torch.equal(kept[~gone], value[~gone])


def test_rounding_has_so_many_values():
    drawn = torch.randn(50, 50, generator=torch.Generator().manual_seed(0))
    value = drawn * 1e-6  # smaller than half precision's own steps near zero
    (eight,) = Round("int8").cover({"a": value}, 1, torch.Generator()).values()
    assert len(eight.unique()) <= 255
    assert float((eight - value).abs().max()) <= float(value.abs().max()) / 127 / 2 * 1.001
    (half,) = Round("fp16").cover({"a": value}, 1, torch.Generator()).values()
    assert float(((half - value) / value)[drawn.abs() > 1e-3].abs().max()) < 2**-10
    assert float((half - value).abs().max()) > 0


def test_signs(tiny):
    leak = leak_of(tiny, (Sign(),))
    assert set(leak.gradient["1.query.weight"].unique().tolist()) == {-1.0, 1.0}


def test_they_combine_in_order():
    value = [{"a": torch.tensor([4.0, 3.0, -2.0, 1.0])}]
    both = defended(value, (Prune(0.5), Sign()), ("a",), torch.Generator())
    assert both["a"].tolist() == [1, 1, 0, 0]
    turned = defended(value, (Sign(), Prune(0.5)), ("a",), torch.Generator())
    assert turned["a"].abs().sum() == 2


def test_clients_are_averaged(tiny):
    """Three clients: the mean of their three gradients, of which ours is one; the attacker is told of three."""
    ours, mean = leak_of(tiny, ()), leak_of(tiny, (), companions=2)
    assert mean.batch == 3
    assert mean.lengths[0] == ours.lengths[0]
    others = {}
    for text, label in STRANGERS:
        secret = Secret.of(tiny, [tiny.encode(text)], [label])
        others[text] = share(tiny, secret, select(tiny, "query", (1,))).gradient["1.query.weight"]
    rest = 3 * mean.gradient["1.query.weight"] - ours.gradient["1.query.weight"]
    pairs = itertools.combinations(others.values(), 2)
    assert min(float((rest - a - b).norm()) for a, b in pairs) < 1e-4 * float(rest.norm())


def test_averaging_takes_one_sentence_of_each_client(tiny):
    with pytest.raises(ValueError, match="give one sentence"):
        leak_of(tiny, (), companions=2, sentence="one dog\ntwo dogs")


def test_likeness_by_hand():
    one, other = (
        {"a": torch.tensor([3.0]), "b": torch.tensor([4.0])},
        {"a": torch.tensor([3.0]), "b": torch.tensor([0.0])},
    )
    assert likeness(one, other) == pytest.approx(0.6)
    assert likeness(one, {name: -value for name, value in one.items()}) == pytest.approx(-1)


# -- what the attacker sees ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("defense", EVERY, ids=told_of)
def test_every_defense_changes_the_leak(tiny, defense):
    clean, covered = leak_of(tiny, ()), leak_of(tiny, (defense,))
    gap = (covered.gradient["1.query.weight"] - clean.gradient["1.query.weight"]).norm()
    assert gap > 0
    assert covered.defenses == (defense,)
    same, other = leak_of(tiny, (defense,)), leak_of(tiny, (defense,), seed=1)
    assert torch.equal(same.gradient["1.query.weight"], covered.gradient["1.query.weight"])
    drawn = isinstance(defense, Mask) or (isinstance(defense, Noise) and defense.noise_multiplier > 0)
    assert torch.equal(other.gradient["1.query.weight"], covered.gradient["1.query.weight"]) is not drawn


@pytest.mark.parametrize("name", DEFENSES)
def test_every_control_changes_what_is_shared_or_said(tiny, name):
    from dataclasses import replace

    default = DEFENSES[name]()
    before = leak_of(tiny, (default,)).gradient["1.query.weight"]
    for field in settings_of(default):
        value = getattr(default, field.name)
        other = next((c for c in field.metadata["choices"] if c != value), None) or type(value)(value * 0.5 or 1)
        changed = replace(default, **{field.name: other})
        if field.name in ("sampling_rate", "steps", "delta"):
            strong = replace(default, noise_multiplier=1.0)
            assert replace(strong, **{field.name: other}).epsilon != strong.epsilon
        else:
            assert not torch.equal(leak_of(tiny, (changed,)).gradient["1.query.weight"], before)


@pytest.mark.parametrize(
    "defense", [Noise(0.0), Prune(0.5), Mask(0.5), Round("fp16"), Round("int8"), Sign()], ids=told_of
)
@pytest.mark.parametrize("name", ["all", "layer", "query"])
def test_the_certificate_knows_the_defense(tiny, name, defense):
    leak = leak_of(tiny, (defense,), name)
    assert certify(leak, [tiny.encode("the dog bit the man")], [1]).holds
    for wrong in ("a dog bit the man", "the man bit the dog"):
        assert not certify(leak, [tiny.encode(wrong)], [1]).holds


def test_noise_is_certified_only_where_it_explains_what_is_left(tiny):
    """Little noise: the truth alone leaves just noise. Much noise: anything would, so nothing is claimed."""
    truth, wrong = tiny.encode("the dog bit the man"), tiny.encode("the man bit the dog")
    faint = leak_of(tiny, (Noise(1e-5),), "layer")
    assert certify(faint, [truth], [1]).holds
    assert certify(faint, [truth], [1]).proof == "noise"
    assert not certify(faint, [wrong], [1]).holds
    loud = leak_of(tiny, (Noise(10.0),), "layer")
    assert not certify(loud, [truth], [1]).holds
    assert not certify(loud, [wrong], [1]).holds


def test_evidence_is_in_nats(tiny):
    """The truth beats every neighbour by much under little noise; under much noise the evidence is about nothing."""
    from demo.attacker.attacks.base import snapshot

    for noise, low, high in ((1e-4, 100, math.inf), (10.0, -20, 20)):
        leak = leak_of(tiny, (Noise(noise),), "layer")
        shot = snapshot(tiny, Budget(), 1, tiny.encode("the dog bit the man"), 0.0, "", labels=(1,))
        assert low < weighed(leak, shot).nats < high


# -- what attacks make of it -----------------------------------------------------------------------------------------


def test_noise_leaves_the_span(minilm):
    """The rank is chosen by the noise: what is kept is the sentence's part, and the words are still read."""
    leak = leak_of(minilm, (Noise(1e-6),), "value", (0,), SENTENCE, length=False)
    shot = last("span", leak)
    assert minilm.text(shot.ids) == SENTENCE


def test_completion_fills_what_was_not_sent():
    generator = torch.Generator().manual_seed(0)
    low = torch.randn(120, 5, generator=generator) @ torch.randn(5, 90, generator=generator)
    sent = low * (torch.rand(low.shape, generator=generator) > 0.5)
    filled = completed(sent, 5)
    assert float((filled - low).norm() / low.norm()) < 1e-3
    assert basis_of(filled, most=5).shape == (90, 5)


@pytest.mark.parametrize("defense", [Mask(0.5), Mask(0.8), Prune(0.5), Round("int8"), Noise(0.0)], ids=told_of)
def test_weak_defenses_do_not_help(minilm, defense):
    shot = last("best", leak_of(minilm, (defense,), "value", (0,), SENTENCE))
    assert minilm.text(shot.ids) == SENTENCE


@pytest.mark.parametrize("defense", [Prune(0.9), Mask(0.5), Sign(), Noise(1e-6)], ids=told_of)
def test_rows_read_what_is_left_of_them(tiny, defense):
    sentence = "one two three four five"
    shot = last("rows", leak_of(tiny, (defense,), "embeddings", (), sentence))
    assert tiny.text(shot.ids) == sentence


def test_descent_matches_what_was_sent(tiny):
    """The truth is at distance zero from a pruned leak: what was not sent is not asked for."""
    from demo.attacker.matching import DISTANCES, Matcher, one_hot

    leak = leak_of(tiny, (Mask(0.7),), "all", ())
    true, other = (tiny.words[tiny.encode(text)][None] for text in ("the dog bit the man", "the dog bit the cat"))
    for kind in DISTANCES:
        near, far = (float(Matcher(leak).distance(x, one_hot(tiny, [1], 1), kind, graph=False)) for x in (true, other))
        assert abs(near) < 1e-2 * far


# -- words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["noise=0.001", "prune=0.9", "mask=0.25", "round=int8", "sign"])
def test_defenses_are_written_as_they_are_read(text):
    assert told_of(parse(text)) == text
    assert strength_of(parse("prune=0.9")) == 0.9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prayer=1", "unknown defense 'prayer': choose one of noise"),
        ("noise=much", "strength of noise is 'much': give a number"),
        ("prune=1.5", "dropped is 1.5: give a number from 0"),
        ("round=fp8", "kind is 'fp8': choose one of fp16, int8"),
        ("noise", "noise needs a strength: noise=0.001"),
        ("sign=3", "sign has no strength"),
    ],
)
def test_errors_name_the_defense(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_a_defended_run_ends_with_evidence(minilm):
    experiment = Experiment(SENTENCE, slice="value", layers=(0,), defenses=(Noise(1e-6),), device="cpu")
    case = set_up(experiment)
    *_, frame = run(experiment, case)
    assert frame.text == SENTENCE
    assert frame.snapshot.nats > 10
    assert 0.5 < case.likeness < 1
