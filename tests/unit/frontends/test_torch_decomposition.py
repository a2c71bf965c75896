"""Programs of torch.export are translated without decomposition, and mean the same."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad.frontends.torch import from_torch
from catgrad.programs.program import evaluate

torch = pytest.importorskip("torch", reason="PyTorch, which is imported from, is not installed")

from catgrad.frontends.torch.tracing.decomposition import decomposed  # noqa: E402  # it needs PyTorch
from tests.conformance.torch_models import Block, Function, cnn, mlp  # noqa: E402

F = torch.nn.functional

STEPS = {
    "function": lambda x: x * 2,
    "layer": lambda x: F.linear(x, torch.eye(6, dtype=x.dtype) - 0.5),
    "view": lambda x: x.view(3, 2, 6).view(6, 6),
    "reshape": lambda x: x.reshape(6, 6),
    "transpose": lambda x: x.t(),
    "chunk": lambda x: torch.cat([x.chunk(2)[1], x[:3]]),
    "dropout in evaluation": lambda x: F.dropout(x, 0.5, training=False),
    "to": lambda x: x.to(torch.float64),
    "contiguous": lambda x: x.contiguous(),
    "largest": lambda x: x.topk(6)[0],
    "relu_": lambda x: x.relu_(),
    "add_": lambda x: x.add_(1),
    "mul_": lambda x: x.mul_(x),
    "a part": lambda x: x[1:].mul_(3) if x.shape[0] < 6 else x[0].add_(x[1]).expand(6, 6),
    "dropout_": lambda x: F.dropout(x, 0.5, training=False, inplace=True),
}
"""Functions that return new arrays, arrays that share storage, and updates in place."""


def run(steps, x):
    """Apply each step to an earlier value, and return all values."""
    values = [x + 1]
    for name, which in steps:
        values.append(STEPS[name](values[which % len(values)]))
    return values


@settings(max_examples=20)
@given(st.lists(st.tuples(st.sampled_from(list(STEPS)), st.integers(0, 5)), min_size=1, max_size=6))
def test_updates_reach_every_array_that_shares_the_storage(steps):
    x = torch.tensor(np.random.default_rng(0).normal(size=(6, 6)))
    module = Function(lambda x: run(steps, x))
    expected = [value.clone() for value in module(x)]
    for ours, theirs in zip(evaluate(from_torch(module, x).model, x.numpy()), expected, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-12, atol=1e-12)


class Inplace(torch.nn.Module):
    """Convolutions with updates in place, as in torchvision."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 3, 3, padding=1),
            torch.nn.BatchNorm2d(3),
            torch.nn.ReLU(inplace=True),
            torch.nn.Dropout(0.5, inplace=True),
        )

    def forward(self, x):
        y = self.layers(x)
        y += x
        with torch.no_grad():
            scale = y.mean()
        return y.relu_() * scale


def exported(module, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, about its own code
        return torch.export.export(module, (x,), strict=False)


@pytest.mark.parametrize(
    ("make", "shape"), [(mlp, (5, 4)), (cnn, (2, 2, 10, 10)), (Block, (2, 6, 8)), (Inplace, (2, 3, 4, 4))]
)
def test_usual_programs_are_not_decomposed(make, shape):
    program = exported(make().eval(), torch.randn(shape))
    assert decomposed(program) is program


def test_batch_norm_in_training_is_decomposed():
    program = exported(cnn().train(), torch.randn(2, 2, 10, 10))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert decomposed(program) is not program
