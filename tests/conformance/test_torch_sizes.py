"""Operations of PyTorch with symbolic sizes compute its numbers at each size, or an error says why not."""

from __future__ import annotations

import pytest

from catgrad.dims import Dim
from catgrad.errors import CatgradError
from catgrad.frontends.torch import from_torch
from catgrad.functors import Expand, reverse
from catgrad.programs.program import evaluate
from tests.covering import some

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

from tests.conformance.test_torch_overloads import (  # noqa: E402  # it needs PyTorch
    FAMILIES,
    TOLERANCES,
    Call,
    Calls,
    calls_of,
    difference,
)
from tests.conformance.torch_functions import FUNCTIONS  # noqa: E402

TOLERANCE = 1e-9
QUICK = ("sorting", "cumulative", "scalars")
"""Families that are imported in every run of the tests."""

VALUES = ("kthvalue", "median.dim")
"""Overloads of which only the first result is compared: the second may be the index of any equal element."""

LEFT_OUT = {
    "_embedding_bag": "PyTorch reads out of bounds where offsets are too large",
    "_embedding_bag_forward_only": "as _embedding_bag",
    "_fft_c2r": "torch.fft passes as many frequencies as it reads",
    "squeeze": "a symbolic axis stays, also if it has size 1",
}
"""Overloads that are not compared, with the reason."""


class Function(Call):
    """A call of a function of tensors, which are its inputs."""

    def __init__(self, name, function, *inputs):
        self.overload = self.name = name
        self.function, self.inputs = function, list(inputs)

    def __call__(self, inputs):
        return [y for y in torch.utils._pytree.tree_leaves(self.function(*inputs)) if y is not None]


def calls(family):
    if family == "functions":
        return [Function(name, *case) for name, case in FUNCTIONS.items()]
    return [call for call in calls_of(family) if call.overload not in LEFT_OUT]


@pytest.mark.parametrize(
    "family",
    some((*FAMILIES, "functions"), QUICK),
)
def test_numbers_are_those_of_pytorch_at_each_size(family):
    wrong = []
    for call in calls(family):
        for number in sorted({n for x in call.inputs for n in x.shape if n}):
            dynamic = {
                f"inputs_{k}": [Dim("n") if n == number else None for n in x.shape]
                for k, x in enumerate(call.inputs)
            }
            try:
                model = from_torch(Calls([call]), *(x.clone() for x in call.inputs), dynamic=dynamic).model
                term, _ = Expand()(model), Expand()(reverse(model))
            except CatgradError:
                continue
            for size in (1, number, number + 2):
                found = differences(call, term, number, size)
                wrong += [f"{call.name} with {size} for {number}: {d}" for d in found]
    assert not wrong, "\n" + "\n".join(wrong)


def differences(call, term, number, size):
    """Return how the results differ from PyTorch's, where it accepts a size."""
    inputs = [resized(x, number, size) for x in call.inputs]
    try:
        wanted = call([x.clone() for x in inputs])
    except Exception:  # PyTorch refuses a size in many ways
        return []
    try:
        found = evaluate(term, *(x.numpy() for x in inputs))
    except (CatgradError, IndexError):  # PyTorch reads some indices out of range
        return []
    pairs = list(zip(found, wanted, strict=True))[: 1 if call.overload in VALUES else None]
    least = TOLERANCES.get(call.overload, TOLERANCE)
    every = [difference(y, w, 1e-6 if w.dtype is torch.float32 else least) for y, w in pairs]
    return [d for d in every if d]


def resized(x, number, size):
    """Repeat or drop elements, in their order, along axes of a size, and make repeated ones unequal."""
    for axis, n in enumerate(x.shape):
        if n == number:
            x = x.index_select(axis, torch.arange(size) * n // size)
            steps = torch.arange(size).reshape(-1, *[1] * (x.ndim - 1 - axis))
            x = x + steps / 1000 if size > n and x.is_floating_point() else x
    return x
