"""Modules of PyTorch as terms: values and gradients are those of the module, in double precision."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from catgrad import NdArrayType
from catgrad.frontends.torch import from_torch
from catgrad.frontends.torch.export import exported
from catgrad.frontends.torch.registry import REGISTRY
from catgrad.functors import factor_parameters, reverse
from catgrad.program import evaluate

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.torch_modules import CASES, made  # noqa: E402  # it needs PyTorch

KINKED = {"torch: compare numbers"}


def leaves(tree):
    """The tensors of nested inputs or outputs."""
    return [leaf for leaf in torch.utils._pytree.tree_leaves(tree) if leaf is not None]


def outputs_of(module, inputs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # PyTorch's on its own slow paths
        return leaves(module.eval()(*inputs))


def assert_close(found, wanted):
    """Equal to 1e-12, or to what its dtype holds."""
    wanted = wanted.detach().numpy()
    assert found.dtype == wanted.dtype
    tolerance = 1e-6 if found.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_a_module_means_what_it_means_in_pytorch(name):
    module, inputs = made(name)
    imported = from_torch(module, *inputs)
    arrays = [x.numpy() for x in leaves(inputs)]
    slots, term = factor_parameters(imported.model)
    assert [slot.name for slot in slots] == list(imported.parameters)
    assert [
        NdArrayType(a.shape, t.dtype) for a, t in zip(arrays, imported.inputs.values(), strict=True)
    ] == list(imported.inputs.values())
    found = evaluate(term, *imported.parameters.values(), *arrays)
    wanted = outputs_of(module, inputs)
    for ours, theirs in zip(found, wanted, strict=True):
        assert_close(ours, theirs)
    assert_same_gradients(term, module, imported, inputs)


def assert_same_gradients(term, module, imported, inputs):
    """The reverse derivative at the parameters and floating inputs, for one cotangent of each output."""
    tensors = [x.detach().clone() for x in leaves(inputs)]
    floating = [x.requires_grad_() for x in tensors if x.is_floating_point()]
    rebuilt = torch.utils._pytree.tree_unflatten(tensors, torch.utils._pytree.tree_structure(tuple(inputs)))
    results = outputs_of(module, rebuilt)
    learnt = [*(dict(module.named_parameters())[name] for name in imported.parameters), *floating]
    smooth = [y for y in results if y.requires_grad]
    if not smooth or not learnt:
        return
    rng = np.random.default_rng(0)
    cotangents = [
        rng.normal(size=tuple(y.shape)).astype(y.detach().numpy().dtype, copy=False)
        if y.requires_grad
        else np.zeros(tuple(y.shape), y.numpy().dtype)
        for y in results
    ]
    wanted = torch.autograd.grad(
        smooth,
        learnt,
        [torch.tensor(d) for d, y in zip(cotangents, results, strict=True) if y.requires_grad],
        allow_unused=True,
        materialize_grads=True,
    )
    given = [*imported.parameters.values(), *(x.detach().numpy() for x in tensors)]
    found = evaluate(reverse(term), *given, *(d for d in cotangents if d.dtype != bool))[len(results) :]
    ours = [
        g for g, x in zip(found, (a for a in given if a.dtype != bool), strict=True) if x.dtype.kind == "f"
    ]
    for a, b in zip(ours, wanted, strict=True):
        tolerance = 1e-9 if all(y.dtype == torch.float64 for y in smooth) else 1e-5
        np.testing.assert_allclose(a, b.numpy(), rtol=tolerance, atol=tolerance)


def test_each_registered_operation_is_in_a_case():
    met = set()
    for name in CASES:
        module, inputs = made(name)
        met.update(str(node.target) for node in exported(module, inputs).graph.nodes)
    assert set(REGISTRY) - met == set()
