"""Overloads of PyTorch's operations agree with PyTorch, in value and gradient, with corner cases."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from catgrad.frontends.torch import from_torch
from catgrad.frontends.torch.registry import TRANSLATIONS
from catgrad.functors import Expand, reverse
from catgrad.programs.program import evaluate
from catgrad.terms.structural import is_differentiable

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance import torch_complex, torch_composites  # noqa: E402  # they need PyTorch
from tests.conformance.torch_complex import COMPLEX  # noqa: E402
from tests.conformance.torch_composites import COMPOSITE  # noqa: E402
from tests.conformance.torch_overloads import (  # noqa: E402  # it needs PyTorch
    FAMILIES,
    FIXED,
    OUTPUTS,
    TOLERANCES,
    VALUE_ONLY,
    full_name,
)

FAMILIES = {**FAMILIES, "composite": COMPOSITE, "complex": COMPLEX}
VALUE_ONLY |= torch_composites.WITHOUT_GRADIENT | torch_complex.WITHOUT_GRADIENT
pytree = torch.utils._pytree
TOLERANCE = 1e-10
INPUT = object()
"""The place of a tensor among the arguments of a call."""


class Call:
    """One call of an overload, of which the tensors are inputs; complex ones are pairs of real numbers."""

    def __init__(self, overload, number, arguments):
        packet, _, name = overload.partition(".")
        self.overload, self.name = overload, f"{overload} {number}"
        self.operation = getattr(getattr(torch.ops.aten, packet), name or "default")
        named = dict(arguments) if isinstance(arguments, dict) else {"args": arguments}
        leaves, self.spec = pytree.tree_flatten((tuple(named.pop("args")), named))
        self.leaves = [INPUT if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        tensors = [leaf.detach().clone() for leaf in leaves if isinstance(leaf, torch.Tensor)]
        self.are_complex = [x.is_complex() for x in tensors]
        self.inputs = [torch.view_as_real(x) if x.is_complex() else x for x in tensors]

    def __call__(self, inputs):
        """Return the tensors among the results."""
        given = (
            torch.view_as_complex(x) if paired else x
            for x, paired in zip(inputs, self.are_complex, strict=True)
        )
        args, named = pytree.tree_unflatten(
            [next(given) if leaf is INPUT else leaf for leaf in self.leaves], self.spec
        )
        results = [y for y in pytree.tree_leaves(self.operation(*args, **named)) if y is not None]
        kept = results[: OUTPUTS.get(self.overload)]
        return [torch.view_as_real(y.resolve_conj()) if y.is_complex() else y for y in kept]

    def gradients(self, cotangents):
        """Return the gradients of the floating-point inputs by torch.autograd, if there are any."""
        fixed = FIXED.get(self.overload, [])
        xs = [
            x.clone().requires_grad_(x.is_floating_point() and k not in fixed)
            for k, x in enumerate(self.inputs)
        ]
        ys = [
            (y, d)
            for y, d in zip(self(xs), cotangents, strict=True)
            if y.requires_grad and y.is_floating_point()
        ]
        learnt = [x for x in xs if x.requires_grad]
        if not ys or not learnt:
            return None
        total = [(y * torch.as_tensor(d)).sum() for y, d in ys]
        found = iter(torch.autograd.grad(total, learnt, allow_unused=True, materialize_grads=True))
        return [next(found) if x.requires_grad else None for x in xs if x.is_floating_point()]


class Calls(torch.nn.Module):
    """A module of all calls of a family, because the export of a module costs more than that of a call."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, *inputs):
        given = iter(inputs)
        return [call([next(given) for _ in call.inputs]) for call in self.calls]


def calls_of(family):
    return [
        Call(overload, k, arguments)
        for overload, calls in FAMILIES[family].items()
        for k, arguments in enumerate(calls)
    ]


def difference(found, wanted, tolerance):
    """Return in which way two arrays differ; an empty text if they are close."""
    wanted = wanted.detach().numpy(force=True)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype}{found.shape} for {wanted.dtype}{wanted.shape}"
    close = np.isclose(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    return "" if close.all() else f"{found[~close][:5]} for {wanted[~close][:5]}"


@pytest.fixture
def translated(monkeypatch):
    """Record the overloads that are translated."""
    names = set()

    def recording(name, meaning):
        @functools.wraps(meaning)
        def recorded(*args, **named):
            names.add(name)
            return meaning(*args, **named)

        return recorded

    for name, each in TRANSLATIONS.items():
        functions = {
            field: recording(name, meaning)
            for field in ("real", "of_pairs")
            if (meaning := getattr(each, field)) is not None
        }
        monkeypatch.setitem(TRANSLATIONS, name, replace(each, **functions))
    return names


@pytest.mark.parametrize("family", FAMILIES)
def test_overloads_agree_with_pytorch(family, translated):
    calls = calls_of(family)
    inputs = [x for call in calls for x in call.inputs]
    term, expand = from_torch(Calls(calls), *inputs).model, Expand()
    assert set(map(full_name, FAMILIES[family])) <= translated
    arrays = [x.numpy() for x in inputs]
    types = term.target.table
    rng = np.random.default_rng(0)
    cotangents = [rng.normal(size=type.shape).astype(type.dtype.numpy) for type in types]
    smooth = [d for d, type in zip(cotangents, types, strict=True) if is_differentiable(type)]
    results = evaluate(expand(reverse(term)), *arrays, *smooth)
    found, gradient, slopes, wrong = (
        iter(results[: len(types)]),
        iter(results[len(types) :]),
        iter(cotangents),
        [],
    )
    for call in calls:
        tolerance = TOLERANCES.get(call.overload, TOLERANCE)
        outputs = call([x.clone() for x in call.inputs])
        ours = [next(found) for _ in outputs]
        gradients = [next(gradient) for x in call.inputs if x.dtype is not torch.bool]
        wrong += [
            f"{call.name}: {d}"
            for y, w in zip(ours, outputs, strict=True)
            if (d := difference(y, w, tolerance))
        ]
        given = [next(slopes) for _ in outputs]
        wanted = None if call.name in VALUE_ONLY or call.overload in VALUE_ONLY else call.gradients(given)
        if wanted is not None:
            mine = [g for g in gradients if g.dtype.kind == "f"]
            pairs = [(a, b) for a, b in zip(mine, wanted, strict=True) if b is not None]
            wrong += [f"{call.name}, gradient: {d}" for a, b in pairs if (d := difference(a, b, tolerance))]
    assert not wrong, "\n" + "\n".join(wrong)


def test_every_composite_operation_is_tested():
    assert {name for name, each in TRANSLATIONS.items() if each.whole} == set(map(full_name, COMPOSITE))


def test_every_operation_of_complex_arrays_is_tested():
    assert {name for name, each in TRANSLATIONS.items() if each.of_pairs} <= set(map(full_name, COMPLEX))
