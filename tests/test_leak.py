import pytest
import torch

from demo.attacker.certificate import Certificate, certify
from demo.victim.gradients import gradient_of
from demo.victim.models import ModelError
from demo.victim.slices import select
from tests.conftest import UNGATED


def test_gradient_is_what_backward_gives(tiny):
    ids, pieces = tiny.encode("the cat sat"), select(tiny, "all")
    ours = gradient_of(tiny, [ids], [1], pieces)
    parameters = {piece.name: getattr(tiny.net.parts()[piece.module], piece.kind) for piece in pieces}
    for parameter in parameters.values():
        parameter.requires_grad_(True)
    torch.nn.functional.cross_entropy(tiny.net(tiny.words[ids][None]), torch.tensor([1])).backward()
    for name, parameter in parameters.items():
        expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        torch.testing.assert_close(ours[name], expected)
        parameter.grad = None
        parameter.requires_grad_(False)


def test_nothing_stays_behind(tiny):
    gradient_of(tiny, [tiny.encode("the cat sat")], [0], select(tiny, "all"))
    assert not any(p.requires_grad or p.grad is not None for p in tiny.net.parameters())


def test_only_the_slice_crosses(tiny, leak_of):
    leak = leak_of(tiny, "query", (1,), length=False, label=False)
    assert list(leak.gradient) == ["1.query.weight"]
    assert (leak.lengths, leak.labels) == (None, None)
    assert not hasattr(leak, "ids")


@pytest.mark.parametrize("name", UNGATED)
def test_certificate(tiny, leak_of, name):
    """Holds for the truth; not for one word more alike than any other, two words exchanged, or the other label."""
    leak = leak_of(tiny, name, (1,), "the dog bit the man")
    assert certify(leak, [tiny.encode("the dog bit the man")], [1]).residual < Certificate(0).tolerance / 10
    for wrong in ("a dog bit the man", "the man bit the dog"):
        assert not certify(leak, [tiny.encode(wrong)], [1]).holds
    assert not certify(leak, [tiny.encode("the dog bit the man")], [0]).holds


def test_wrong_label_is_named(tiny):
    with pytest.raises(ModelError, match="label 2 does not exist"):
        gradient_of(tiny, [tiny.encode("hello")], [2], select(tiny, "head"))
