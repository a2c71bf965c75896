"""Records of modules as people publish them: a class, its inputs and targets, and the loss that trains it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

functional = torch.nn.functional

SIZES = (6, 4)
"""The sizes of the batches, in the place of "n"."""


class Record(NamedTuple):
    """A constructor, draws of inputs and of targets, a loss (outputs…, targets…), and an optimiser."""

    make: Callable[[], torch.nn.Module]
    inputs: tuple[torch.Tensor, ...]
    targets: tuple[torch.Tensor, ...]
    loss: Callable[..., torch.Tensor]
    optimiser: Callable[..., torch.optim.Optimizer]

    def batch(self, size, seed):
        """Draw the inputs, and the targets."""
        torch.manual_seed(seed)
        return tuple(f(size) for f in self.inputs), tuple(f(size) for f in self.targets)


MODULES: dict[str, Record] = {}
"""All modules by name."""


def momentum(parameters):
    return torch.optim.SGD(parameters, 0.02, momentum=0.9)


def adam(parameters):
    return torch.optim.Adam(parameters, 3e-3)


def module(name, inputs, targets=(), loss=functional.mse_loss, optimiser=momentum):
    """Register a class, or a function that returns a module."""

    def register(make):
        assert name not in MODULES
        MODULES[name] = Record(make, _several(inputs), _several(targets), loss, optimiser)
        return make

    return register


def real(*shape):
    """Normal numbers; "n" stands for the size of the batch."""
    return lambda size: torch.randn([size if s == "n" else s for s in shape])


def uniform(*shape):
    """Numbers from 0 to 1."""
    return lambda size: torch.rand([size if s == "n" else s for s in shape])


def whole(end, *shape):
    """Whole numbers from 0 to end - 1."""
    return lambda size: torch.randint(end, [size if s == "n" else s for s in shape])


def signs(*shape):
    """0 or 1, as real numbers."""
    return lambda size: torch.randint(2, [size if s == "n" else s for s in shape]).float()


def mean(y):
    """The loss of a module that returns its loss."""
    return y.mean()


def _several(x):
    return x if isinstance(x, tuple) else (x,)
