"""Linear algebra that does not break off: a guess may always be degenerate, and then it is only a bad guess."""

import torch
from torch import Tensor

RIDGE = 1e-3  # of a matrix's mean diagonal, added where it cannot be solved
SMALLEST = 1e-20  # a variance; beside it there is nothing
TRIES = 8  # each with ten times as much added


def solve(gram: Tensor, right: Tensor) -> Tensor:
    """gram (…, n, n) · x = right (…, n, m), for grams of features; nearly so for those that are singular.

    >>> solve(torch.zeros(2, 2), torch.ones(2, 1)).isfinite().all()
    tensor(True)
    """
    found, problems = torch.linalg.solve_ex(gram, right)
    if not bool(problems.any()):
        return found
    size = gram.diagonal(dim1=-2, dim2=-1).abs().mean(-1).clamp_min(1e-12)
    ridge = RIDGE * size[..., None, None] * torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    return torch.linalg.solve_ex(gram + ridge, right)[0]


def whitener(covariance: Tensor, floor: float) -> Tensor:
    """(width, width): after it, vectors of this covariance vary alike in every direction.

    Directions that vary less than the floor, a share of the mean, count as rounding; where nothing varies, all do.

    >>> whitener(torch.zeros(2, 2), 1e-6).isfinite().all()
    tensor(True)
    """
    identity = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    size = covariance.diagonal().mean().clamp_min(SMALLEST)
    for power in range(TRIES):
        root, problem = torch.linalg.cholesky_ex(covariance + floor * 10**power * size * identity)
        if not bool(problem):
            return torch.linalg.inv_ex(root)[0].T
    return identity / size.sqrt()
