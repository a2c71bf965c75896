"""Example inputs of modules and functions of PyTorch, the same in every run."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")


def real(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def positive(*shape):
    return real(*shape).abs() + 0.1


def whole(high, *shape, low=0):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(0))


def truths(*shape):
    return real(*shape, seed=5) > 0


X, Y, P, W = real(3, 4), real(3, 4, seed=1), positive(3, 4), whole(5, 3, 4, low=1)
"""Two arrays of floats, one of positive floats, and one of integers."""
TIMES = (2, 5, 4)
"""A batch of sequences of features."""
