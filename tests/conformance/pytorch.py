"""Differential testing against PyTorch: values and gradients on a target."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from catgrad import Dtype, NdArrayType, build
from catgrad.functors import reverse
from catgrad.targets import get_backend
from catgrad.testing import run_on

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")

AWKWARD = [0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan]


def assert_as_torch(target, ours, theirs, *arrays, tolerance=1e-12):
    """Compare the values of a function, and the gradients of its floating-point arguments."""
    types = [NdArrayType(a.shape, Dtype[a.dtype.name]) for a in arrays]
    floating = [a.dtype.kind == "f" for a in arrays]
    tensors = [torch.tensor(a, requires_grad=f) for a, f in zip(arrays, floating, strict=True)]
    wanted = theirs(*tensors)
    term = build(ours, types)
    if not wanted.dtype.is_floating_point:
        [found] = run_on(get_backend(target), term, *arrays)
        np.testing.assert_array_equal(found, wanted)
        return
    dy = np.random.default_rng(1).normal(size=wanted.shape)
    learnt = [tensor for tensor in tensors if tensor.requires_grad]
    gradients = torch.autograd.grad(wanted, learnt, torch.tensor(dy))
    found, *all_gradients = run_on(get_backend(target), reverse(term), *arrays, dy)
    cotangents = [f for f, a in zip(floating, arrays, strict=True) if a.dtype != bool]
    ours_of_floats = [g for g, f in zip(all_gradients, cotangents, strict=True) if f]
    for a, b in zip([found, *ours_of_floats], [wanted.detach(), *gradients], strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@st.composite
def arrays_with_axis(draw, least=0, elements=st.floats(-4, 4)):
    """Draw an array of up to three axes, and one of the axes with a minimum size."""
    shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    axis = draw(st.integers(0, len(shape) - 1))
    shape[axis] = max(shape[axis], least)
    size = int(np.prod(shape))
    values = draw(st.lists(elements, min_size=size, max_size=size))
    return np.array(values, np.float64).reshape(shape), axis


awkward = st.sampled_from(AWKWARD)
"""Few distinct numbers, so that many are equal, and special values."""
