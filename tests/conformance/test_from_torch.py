"""Modules of PyTorch as terms: values and gradients are those of the module, in double precision."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings

from catgrad import Task, mse, sgd
from catgrad.frontends.torch import from_torch
from catgrad.frontends.torch.registry import TRANSLATIONS
from catgrad.frontends.torch.tracing.export import Export
from catgrad.functors import factor_parameters, reverse
from catgrad.programs.program import evaluate
from catgrad.terms.structural import is_differentiable
from tests.conformance.test_pytorch_spatial import convolutions, pools
from tests.targets import emit

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_complex import COMPLEX  # noqa: E402  # it needs PyTorch
from tests.conformance.torch_models import Function  # noqa: E402
from tests.conformance.torch_modules import CASES, made  # noqa: E402
from tests.conformance.torch_overloads import FAMILIES, full_name  # noqa: E402

DRAWS = ("randomness", "distributions")
TESTED_IN_TRAINING = {
    name for name, each in TRANSLATIONS.items() if each.is_random and each.real.__module__.endswith(DRAWS)
} | {
    "aten._native_batch_norm_legit_functional.default",
    "aten._assert_scalar.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
    "aten.empty.memory_format",
}
"""Overloads of training mode and of symbolic sizes, which test_torch_training and test_torch_draws have."""

TOLERANCE = {"CELU(alpha=0.6)": 1e-6, "Hardsigmoid()": 1e-6}
"""Operations whose reverse in PyTorch has single precision."""
TRAINED = ["mlp", "cnn", "block", "lstm deep", "gru", "spectral convolution"]


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


@pytest.mark.covering
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
    graph = Export(All(modules), (inputs,), train=False, dynamic=()).decomposed.graph
    found = {str(node.target) for node in graph.nodes}
    called = {name for family in [*FAMILIES.values(), COMPLEX] for name in map(full_name, family)}
    of_pytorch = {
        name
        for name, each in TRANSLATIONS.items()
        if each.real and not each.whole and name.startswith("aten.")
    }  # others: test_torch_families.py
    reverses = {name for name in of_pytorch if "_backward." in name}  # test_torch_derivatives.py
    assert of_pytorch - TESTED_IN_TRAINING - called - reverses <= found


class All(torch.nn.Module):
    """A module of modules, which applies each to its inputs."""

    def __init__(self, modules):
        super().__init__()
        self.all = torch.nn.ModuleList(modules)

    def forward(self, inputs):
        return [module(*given) for module, given in zip(self.all, inputs, strict=True)]


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


NOT_FINITE = numbers(np.nan, 1, -3, 3, 0, np.inf, -np.inf)
QUOTIENTS = (
    numbers(1, 6, -1, 5, -5, 5, 1, 3, -3),
    numbers(0.1, 0.1, 0.1, *[np.inf] * 2, -np.inf, 0, -0.7, 0.7),
)
WHOLE = torch.tensor([-7, 7, -7, 7, 6, -6, 0]), torch.tensor([2, 2, -2, -2, 3, 3, 5])
SCORES = numbers(0.3, -np.inf, -1, -np.inf).repeat(4, 1)
SCORES[1] = -np.inf
QKV = tuple(torch.tensor(np.random.default_rng(k).normal(size=(1, 2, 4, 8))) for k in range(3))


def clamped(**bounds):
    return lambda x: x.clamp(**bounds), NOT_FINITE


CORNERS = {
    "near whole quotients, floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), *QUOTIENTS),
    "near whole quotients, trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), *QUOTIENTS),
    "near whole quotients, remainder": (torch.remainder, *QUOTIENTS),
    "whole numbers, floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), *WHOLE),
    "whole numbers, trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), *WHOLE),
    "a scale that is no ratio of sizes": (
        lambda x: torch.nn.functional.interpolate(x, scale_factor=2.3),
        numbers(0, 1, 2).reshape(1, 1, 3),
    ),
    "an image made smaller": (
        lambda x: torch.nn.functional.interpolate(x, size=(5, 2)),
        numbers(*range(24)).reshape(1, 2, 3, 4),
    ),
    "the sign of what is not finite": (torch.sign, NOT_FINITE),
    "the running sum of a scalar": (lambda x: x.cumsum(0), torch.tensor(3.0, dtype=torch.float64)),
}
WITH_GRADIENT = {
    "a row of scores that are all -inf": (
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=SCORES),
        *QKV,
    ),
    "a row of keys that are all masked": (
        lambda *qkv: torch.nn.functional.scaled_dot_product_attention(*qkv, torch.isfinite(SCORES)),
        *QKV,
    ),
    "bounds": clamped(min=-1, max=1),
    "crossed bounds": clamped(min=2, max=1),
    "least inf": clamped(min=np.inf),
    "greatest -inf": clamped(max=-np.inf),
    "least -inf": clamped(min=-np.inf),
    "infinite bounds": clamped(min=-np.inf, max=np.inf),
    "one infinite bound": clamped(min=-np.inf, max=1.0),
}


@pytest.mark.parametrize("name", [*CORNERS, *WITH_GRADIENT])
def test_corners_are_those_of_pytorch(name):
    """Compare what was wrong once. PyTorch's own gradient is not that of its value where none is compared."""
    function, *inputs = (CORNERS | WITH_GRADIENT)[name]
    imported = from_torch(Function(function), *inputs)
    given = [x.numpy() for x in inputs]
    [found] = evaluate(imported.model, *given)
    np.testing.assert_allclose(found, function(*inputs).numpy(), rtol=1e-12, atol=1e-12)
    if name in WITH_GRADIENT:
        xs = [x.clone().requires_grad_() for x in inputs]
        y = function(*xs)
        _, *gradients = evaluate(reverse(imported.model), *given, np.ones_like(found))
        for ours, theirs in zip(gradients, torch.autograd.grad(y.sum(), xs), strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-12, atol=1e-12)
