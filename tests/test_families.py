"""A new family is one file and one line: nothing between its weights and the stage knows any family by name."""

import json

import pytest
import torch
from torch.nn import functional as F

from demo.attacker.attacks import ATTACKS
from demo.attacker.certificate import certify
from demo.attacker.matching import DISTANCES, Matcher, one_hot
from demo.client.secret import Secret
from demo.client.share import share
from demo.runs.engine import Experiment
from demo.screen.messages import messages
from demo.ui.components import drawing_of
from demo.victim.slices import all_pieces, count, select
from tests.conftest import UNGATED
from tests.toy import DRAWN

TEXT = "the cat sat on the mat"
MATCHING = ("best", "dlg", "tag", "cosine", "grab")  # they take any network that can be differentiated


def leak_of(toy, name, text=TEXT, layers=(1,)):
    secret = Secret.of(toy, [toy.encode(text)], [0])
    return share(toy, secret, select(toy, name, layers))


def test_its_slices_are_its_own_parts(toy):
    pieces = all_pieces(toy)
    assert count(pieces) == sum(parameter.numel() for parameter in toy.net.parameters())
    assert {piece.name for piece in select(toy, "query", (1,))} == {"1.query.weight"}
    assert {piece.part for piece in select(toy, "head")} == {"output"}
    assert set(select(toy, "all")) == set(pieces)


def test_the_clients_gradient_is_autograds(toy):
    ids = toy.encode(TEXT)
    assert toy.text(ids) == TEXT  # and no marks at its ends
    net = toy.net.trained
    states = net.inputs(net.embed(net.words[ids][None]), 2)
    loss = F.cross_entropy(net.output(states)[0, :-1], ids[1:])
    expected = torch.autograd.grad(loss, [net.layers[0].key.weight])[0]
    torch.testing.assert_close(leak_of(toy, "key", layers=(0,)).gradient["0.key.weight"], expected)


@pytest.mark.parametrize("kind", DISTANCES)
@pytest.mark.parametrize("name", [name for name in UNGATED if name != "embeddings"])
def test_the_truth_has_no_distance(toy, name, kind):
    leak = leak_of(toy, name)
    words = toy.words[toy.encode(TEXT)][None]
    other = toy.words[toy.encode("the dog sat on the mat")][None]
    near, far = (float(Matcher(leak).distance(w, one_hot(toy, [0], 1), kind, graph=False)) for w in (words, other))
    assert near < 1e-4 * far


def test_certificates_tell_the_truth_from_its_neighbours(toy):
    leak = leak_of(toy, "value")
    assert certify(leak, [toy.encode(TEXT)], [0]).holds
    assert not certify(leak, [toy.encode("the cat sat on a mat")], [0]).holds


@pytest.mark.parametrize("attack", list(ATTACKS))
def test_every_attack_ends_on_the_stage_or_says_why_not(toy, attack):
    asked = Experiment(TEXT, model="toy", weights=DRAWN, slice="all", attack=attack, seconds=1)
    if attack not in MATCHING:
        with pytest.raises(ValueError, match=f"^{attack} cannot attack this: "):
            list(messages(asked))
        return
    told = list(messages(asked))
    assert "end" in told[-1]
    frames = [message["frame"] for message in told if "frame" in message]
    assert frames
    start = next(message["start"] for message in told if "start" in message)
    assert start["truth"] == TEXT.split()
    assert all(len(frame["tokens"]) >= len(start["truth"]) for frame in frames)


def test_it_is_drawn(toy):
    spec = json.loads(drawing_of("toy", "query", [1]))
    assert (spec["layers"], spec["chosen"]) == (2, [1])
    assert spec["sizes"]["query"] == "1,024"
