"""Linear algebra that does not break off, whatever it is given."""

import pytest
import torch

from demo.attacker.algebra import solve, whitener


def test_what_can_be_solved_is_solved():
    draws = torch.Generator().manual_seed(0)
    matrix, right = torch.randn(5, 5, generator=draws).double(), torch.randn(5, 2, generator=draws).double()
    assert torch.allclose(matrix @ solve(matrix, right), right)


@pytest.mark.parametrize("gram", [torch.zeros(3, 3), torch.ones(3, 3)])
def test_what_cannot_is_solved_nearly(gram):
    right = gram @ torch.ones(3, 1)
    assert torch.allclose(gram @ solve(gram, right), right, atol=0.01)


def test_after_it_vectors_vary_alike():
    draws = torch.Generator().manual_seed(0)
    vectors = torch.randn(1000, 4, generator=draws).double() @ torch.diag(torch.tensor([1.0, 10, 0.1, 3])).double()
    covariance = vectors.T @ vectors / len(vectors)
    white = vectors @ whitener(covariance, 1e-9)
    assert torch.allclose(white.T @ white / len(white), torch.eye(4).double(), atol=1e-4)


@pytest.mark.parametrize(
    "covariance", [torch.zeros(3, 3), torch.ones(3, 3), -torch.eye(3), torch.diag(torch.tensor([1.0, 0, 0]))]
)
def test_nothing_that_varies_or_too_little_is_no_problem(covariance):
    assert whitener(covariance, 1e-6).isfinite().all()
