"""Whole training steps against PyTorch's autograd and optimisers."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dtype, sgd
from catgrad.learn.compile import emit
from tests.models import mlp

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")


def twin(parameters):
    """The same network as `mlp`, in PyTorch, on copies of the parameters."""
    tensors = {name: torch.as_tensor(a).clone().requires_grad_() for name, a in parameters.items()}

    def forward(x):
        h = torch.sigmoid(x @ tensors["dense_0.weight"] + tensors["dense_0.bias"])
        return torch.tanh(h @ tensors["dense_1.weight"] + tensors["dense_1.bias"])

    return tensors, forward


@pytest.mark.parametrize("target", ["numpy", "torch"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(("dtype", "tolerance"), [(Dtype.float32, 1e-5), (Dtype.float64, 1e-10)])
def test_steps_are_those_of_torch_at_every_batch_size(target, momentum, dtype, tolerance):
    """One compiled step, at batches of 2, 7 and 1: the mean divides by the size at run time."""
    learner = emit(mlp(sgd(0.1, momentum), dtype), target).load()().learner(seed=3)
    tensors, forward = twin(learner.parameters)
    optimiser = torch.optim.SGD(tensors.values(), lr=0.1, momentum=momentum)
    rng = np.random.default_rng(0)
    for batch in (2, 7, 1, 7, 2):
        x = rng.normal(size=(batch, 4)).astype(dtype.numpy)
        y = rng.normal(size=(batch, 3)).astype(dtype.numpy)
        wanted = torch.nn.functional.mse_loss(forward(torch.tensor(x)), torch.tensor(y))
        optimiser.zero_grad()
        wanted.backward()
        optimiser.step()
        np.testing.assert_allclose(learner.step(x, y), wanted.item(), rtol=tolerance)
    for name, array in learner.parameters.items():
        array = np.asarray(array)
        assert array.dtype == dtype.numpy
        np.testing.assert_allclose(array, tensors[name].detach(), rtol=tolerance, atol=tolerance)


def test_rev_is_the_vector_jacobian_product_of_torch():
    task = mlp(dtype=Dtype.float64)
    learner = emit(task).load()().learner(seed=1)
    tensors, forward = twin(learner.parameters)
    rng = np.random.default_rng(0)
    x, dy = rng.normal(size=(6, 4)), rng.normal(size=(6, 3))
    inputs = torch.tensor(x, requires_grad=True)
    wanted = torch.autograd.grad(forward(inputs), [*tensors.values(), inputs], torch.tensor(dy))
    found = learner.model.rev(*learner.parameters.values(), x, dy)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


POINTWISE = {
    "Exp": torch.exp, "Log": torch.log, "Log1p": torch.log1p, "Expm1": torch.expm1, "Tanh": torch.tanh,
    "Sqrt": torch.sqrt, "Sin": torch.sin, "Cos": torch.cos, "Erf": torch.erf, "Square": torch.square,
    "Negate": torch.neg, "Abs": torch.abs, "Sign": torch.sign, "Floor": torch.floor, "Round": torch.round,
    "Maximum": torch.maximum, "Minimum": torch.minimum, "Add": torch.add, "Subtract": torch.sub,
    "Multiply": torch.mul, "Divide": torch.div, "Power": torch.pow,
    "Sigmoid": torch.sigmoid, "Relu": torch.relu, "LeakyRelu": torch.nn.functional.leaky_relu,
    "Elu": torch.nn.functional.elu, "Softplus": torch.nn.functional.softplus,
    "Silu": torch.nn.functional.silu, "Gelu": torch.nn.functional.gelu,
    "GeluTanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
}  # fmt: skip
AWKWARD = [0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan, 1e-30, 60.0]


KEEPS_NAN = {"Abs", "Sign", "Elu"}
"""Where PyTorch turns a NaN into a number, in the value of Sign or in gradients, and catgrad keeps it."""


@pytest.mark.parametrize("name", POINTWISE)
def test_scalar_maps_at_awkward_places(name):
    """Values and gradients at zeros, ties, infinities and NaN are those of PyTorch."""
    from catgrad.functors import reverse
    from catgrad.op import OPS
    from catgrad.program import evaluate
    from catgrad.term import singleton
    from catgrad.types import NdArrayType

    op = OPS[name]()
    grid = np.meshgrid(*[np.array(AWKWARD)] * op.arity(), indexing="ij")
    arrays = [g.ravel() for g in grid]
    if name in KEEPS_NAN:
        arrays = [a[~np.isnan(a)] for a in arrays]
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    wanted = POINTWISE[name](*tensors)
    gradients = torch.autograd.grad(wanted.sum(), tensors)
    types = [NdArrayType(a.shape, Dtype.float64) for a in arrays]
    found, *found_gradients = evaluate(reverse(singleton(op, *types)), *arrays, np.ones(len(arrays[0])))
    np.testing.assert_allclose(found, wanted.detach(), rtol=1e-12)
    for a, b in zip(found_gradients, gradients, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
