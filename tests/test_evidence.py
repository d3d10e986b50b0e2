"""Known noise: the evidence beside its formula, and the attack that climbs on it."""

import pytest
import torch

from demo.attacker import evidence
from demo.attacker.attacks import ATTACKS, Budget
from demo.attacker.attacks.best import Best
from demo.attacker.certificate import log_likelihood
from demo.attacker.evidence import Evidence
from demo.attacker.subspace import searchable
from demo.client.defenses import Noise, Prune, Round
from demo.client.secret import Secret
from demo.client.share import share
from demo.victim.gradients import gradient_of
from demo.victim.slices import select
from tests.conftest import LONG

SENTENCE = "the dog bit the man"
SIGMA = 1e-4


NOISE = (Noise(SIGMA),)


def leak_of(model, name, layers=(1,), defenses=NOISE, sentence=SENTENCE):
    secret = Secret.of(model, [model.encode(sentence)], [1])
    return share(model, secret, select(model, name, layers), defenses=defenses)


@pytest.mark.parametrize("name", ["all", "embeddings", "layer", "value", "ffn-out", "head"])
def test_nats_are_those_of_the_whole_gradient(tiny, monkeypatch, name):
    """⟨g′, leak⟩² / 2σ²‖g′‖², with the gradient built number by number; a word that occurs twice has one row."""
    monkeypatch.setattr(evidence, "TELLING", 1.0)
    leak = leak_of(tiny, name)
    for text in (SENTENCE, "the man bit the man", "a cat ran to him"):
        ids = tiny.encode(text)
        ours = gradient_of(tiny, [ids], [1], leak.pieces)
        dot = sum(float((ours[p.name].double() * leak.gradient[p.name].double()).sum()) for p in leak.pieces)
        square = sum(float(ours[p.name].double().square().sum()) for p in leak.pieces)
        found = float(Evidence(leak, [1], len(ids)).nats(ids[None]))
        assert found == pytest.approx(max(dot, 0) ** 2 / square / 2 / SIGMA**2, rel=2e-3)


def test_the_loudest_pieces_tell_nearly_all(tiny):
    """Differences between guesses are those of the likelihood of every exposed number, at the length that it has."""
    leak = leak_of(tiny, "all")
    found = Evidence(leak, [1], 7)
    assert len(found.pieces) < len(leak.pieces)
    texts = (SENTENCE, "the man bit the dog", "the dog bit a man")
    nats = found.nats(torch.stack([tiny.encode(text) for text in texts]))
    whole = torch.tensor([log_likelihood(leak, [tiny.encode(text)], [1]) for text in texts])
    assert nats.argsort().tolist() == whole.argsort().tolist()
    torch.testing.assert_close(nats[0] - nats[1:], (whole[0] - whole[1:]).float(), rtol=0.25, atol=0)


def test_rows_put_words_in_their_places(tiny):
    text = "every dog bit some man"
    ids, ordinary = tiny.encode(text), tiny.ordinary
    told = Evidence(leak_of(tiny, "embeddings", (), (Noise(1e-7),), text), [1], 7).rows_together(7)
    assert ordinary[told[1:-1, ordinary].argmax(1)].tolist() == ids[1:-1].tolist()
    alike = Evidence(leak_of(tiny, "embeddings", (), sentence=text), [1], 7).rows_alike(ids)  # by what the guess sends
    assert (alike.gather(1, ids[:, None])[1:-1, 0] > 3).all()  # standard deviations of what chance would give


def test_it_is_chosen_for_noise_alone(tiny):
    best = ATTACKS["best"]
    assert isinstance(best, Best)
    assert best.choose(leak_of(tiny, "layer"))[0] == "likelihood"
    for defenses in ((), (Round("int8"),), (Noise(SIGMA), Prune(0.5))):
        assert best.choose(leak_of(tiny, "layer", defenses=defenses))[0] != "likelihood"
        assert ATTACKS["likelihood"].supports(leak_of(tiny, "layer", defenses=defenses))


def test_it_recovers_what_no_span_shows(tiny):
    """Noise that leaves two directions of a span of six: there is nothing that the other attacks could read."""
    leak = leak_of(tiny, "all", (), (Noise(3e-3),), "The dog barks.")
    assert next(searchable(leak)).rank == 2
    for shot in ATTACKS["likelihood"].run(leak, Budget(LONG), 0):
        if tiny.text(shot.ids) == "the dog barks.":
            break
    assert tiny.text(shot.ids) == "the dog barks."
    assert shot.objective < -10_000  # nats, all of them evidence
    *_, other = ATTACKS["search"].run(leak, Budget(5), 0)
    assert tiny.text(other.ids) != "the dog barks."
