"""Modules of PyTorch as terms: values and gradients are those of the module, in double precision."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings

from catgrad import Task, emit, mse, sgd
from catgrad.frontends.torch import from_torch
from catgrad.frontends.torch.export import exported
from catgrad.frontends.torch.registry import REGISTRY
from catgrad.functors import factor_parameters, reverse
from catgrad.programs.program import evaluate
from catgrad.terms.structural import is_differentiable
from tests.conformance.test_pytorch_spatial import convolutions, pools

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_modules import CASES, made  # noqa: E402  # it needs PyTorch

TOLERANCE = {"CELU(alpha=0.6)": 1e-6, "Hardsigmoid()": 1e-6}
"""Operations whose reverse in PyTorch has single precision."""
TRAINED = ["mlp", "cnn", "block", "lstm deep", "gru"]


def leaves(tree):
    """List the tensors of nested inputs or outputs."""
    return [leaf for leaf in torch.utils._pytree.tree_leaves(tree) if leaf is not None]


def outputs_of(module, inputs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # PyTorch's, about its own slow paths
        return leaves(module.eval()(*inputs))


def gradients_of(module, names, inputs, cotangents):
    """Return the gradients of these parameters and of floating inputs, by torch.autograd."""
    tree = torch.utils._pytree.tree_map(lambda x: x.detach().requires_grad_(x.is_floating_point()), inputs)
    outputs = outputs_of(module, tree)
    parameters = dict(module.named_parameters())
    learnt = [*(parameters[name] for name in names), *(x for x in leaves(tree) if x.requires_grad)]
    total = sum(
        (y * torch.tensor(d)).sum() for y, d in zip(outputs, cotangents, strict=True) if y.requires_grad
    )
    if not isinstance(total, torch.Tensor):
        return None
    return torch.autograd.grad(total, learnt, allow_unused=True, materialize_grads=True)


def assert_close(found, wanted, tolerance):
    assert found.dtype == wanted.numpy().dtype
    tolerance = max(tolerance, 1e-6) if found.dtype == np.float32 else tolerance
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def assert_same(module, inputs, tolerance):
    """Compare the values, and the gradients for one cotangent of each output."""
    imported = from_torch(module, *inputs)
    slots, term = factor_parameters(imported.model)
    assert [slot.name for slot in slots] == list(imported.parameters)
    arrays = [*imported.parameters.values(), *(x.numpy() for x in leaves(inputs))]
    values = evaluate(term, *arrays)
    for ours, theirs in zip(values, outputs_of(module, inputs), strict=True):
        assert_close(ours, theirs.detach(), tolerance)
    rng = np.random.default_rng(0)
    cotangents = [rng.normal(size=value.shape).astype(value.dtype) for value in values]
    wanted = gradients_of(module, imported.parameters, inputs, cotangents)
    if wanted is not None:
        smooth = (d for d, type in zip(cotangents, term.target.table, strict=True) if is_differentiable(type))
        found = evaluate(reverse(term), *arrays, *smooth)[len(values) :]
        kinds = [array.dtype.kind for array in arrays if array.dtype != bool]
        ours = [gradient for gradient, kind in zip(found, kinds, strict=True) if kind == "f"]
        for a, b in zip(ours, wanted, strict=True):
            assert_close(a, b, max(tolerance, 1e-9))


@pytest.mark.parametrize("name", CASES)
def test_modules_agree_with_pytorch(name):
    assert_same(*made(name), TOLERANCE.get(name, 1e-12))


@settings(max_examples=20)
@given(convolutions())
def test_convolutions_of_all_geometries(case):
    x, w, options = case
    kind = getattr(torch.nn, f"Conv{len(x) - 2}d")
    layer = kind(x[1], w[0], w[2:], **options).double()
    assert_same(layer, (torch.randn(x, dtype=torch.float64),), 1e-11)


@settings(max_examples=20)
@given(pools())
def test_pools_of_all_geometries(case):
    shape, size, stride, padding, dilation = case
    spatial = len(shape) - 2
    x = torch.randn(shape, dtype=torch.float64)
    assert_same(getattr(torch.nn, f"MaxPool{spatial}d")(size, stride, padding, dilation), (x,), 1e-12)
    if min(n - k for n, k in zip(shape[2:], size, strict=True)) >= 0:  # avg_pool3d demands it
        assert_same(getattr(torch.nn, f"AvgPool{spatial}d")(size, stride, padding), (x,), 1e-12)


@pytest.mark.parametrize("target", ["numpy", "c"])
@pytest.mark.parametrize("name", TRAINED)
def test_emitted_reverses_agree_with_autograd(name, target):
    module, inputs = made(name)
    imported = from_torch(module, *inputs)
    compiled = emit(Task(imported.model, sgd(0.1), mse_of_all), target).load()()
    p, x = list(imported.parameters.values()), [tensor.numpy() for tensor in leaves(inputs)]
    values = compiled.predict(*p, *x)
    for ours, theirs in zip(values, outputs_of(module, inputs), strict=True):
        assert_close(np.asarray(ours), theirs.detach(), 1e-10)
    cotangents = [np.random.default_rng(0).normal(size=np.shape(value)) for value in values]
    wanted = gradients_of(module, imported.parameters, inputs, cotangents)
    for a, b in zip(compiled.rev_p(*p, *x, *cotangents), wanted, strict=False):
        assert_close(np.asarray(a), b, 1e-9)


def mse_of_all(*arrays):
    """The sum of the mean squared errors of all outputs."""
    half = len(arrays) // 2
    total = mse(arrays[0], arrays[half])
    for y, z in zip(arrays[1:half], arrays[half + 1 :], strict=True):
        total = total + mse(y, z)
    return total


def test_every_registered_operation_is_tested():
    """One module has all cases, because the export of a module costs more than that of an operation."""
    modules, inputs = zip(*map(made, CASES), strict=True)
    graph = exported(All(modules), (inputs,)).graph
    assert set(REGISTRY) <= {str(node.target) for node in graph.nodes}


class All(torch.nn.Module):
    """A module of modules, which applies each to its inputs."""

    def __init__(self, modules):
        super().__init__()
        self.all = torch.nn.ModuleList(modules)

    def forward(self, inputs):
        return [module(*given) for module, given in zip(self.all, inputs, strict=True)]
