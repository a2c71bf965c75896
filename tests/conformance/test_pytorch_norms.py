"""Group norm and rotary embedding against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.errors import OptionError, ShapeError
from catgrad.functors import reverse
from catgrad.programs.program import evaluate
from tests.conformance.twins import assert_same, normal
from tests.targets import drawn, on_targets, on_targets_with

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, is not installed")
F = torch.nn.functional


@on_targets
@drawn(
    groups=st.integers(1, 3),
    per_group=st.integers(1, 3),
    spatial=st.lists(st.integers(1, 4), max_size=3),
    batch=st.integers(1, 3),
)
def test_group_norm(target, groups, per_group, spatial, batch):
    assume(batch * per_group * np.prod(spatial) > 1)  # PyTorch refuses a single element
    x = 3 * normal((batch, groups * per_group, *spatial))[0] + 1
    # One element is its own mean: the gradient is rounding, multiplied by 1 / √ε.
    tolerance = 1e-9 if per_group * np.prod(spatial) > 1 else 1e-6
    assert_same(
        target,
        lambda x: ops.group_norm(x, groups, 1e-3),
        lambda x: F.group_norm(x, groups, eps=1e-3),
        x,
        tolerance=tolerance,
    )


def turned(x, base, interleaved):
    """Multiplication of complex numbers."""
    t, d = x.shape[-2:]
    angles = torch.outer(torch.arange(t), 1 / base ** (torch.arange(0, d, 2, dtype=x.dtype) / d))
    pairs = x.unflatten(-1, (-1, 2)) if interleaved else x.unflatten(-1, (2, -1)).transpose(-1, -2)
    product = torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_real(product)
    return (pairs if interleaved else pairs.transpose(-1, -2)).flatten(-2)


@on_targets_with("sines")
@drawn(
    lead=st.lists(st.integers(1, 3), max_size=2),
    length=st.integers(1, 6),
    half=st.integers(1, 4),
    interleaved=st.booleans(),
)
def test_rotary(target, lead, length, half, interleaved):
    assert_same(
        target,
        lambda x: ops.rotary(x, 50.0, interleaved),
        lambda x: turned(x, 50.0, interleaved),
        *normal((*lead, length, 2 * half)),
    )


def test_rotated_products_depend_on_relative_positions_only():
    q, k = (np.tile(a, (8, 1)) for a in normal((1, 6), (1, 6)))
    type = NdArrayType((8, 6), Dtype.float64)
    (scores,) = evaluate(build(lambda q, k: ops.rotary(q) @ ops.transpose(ops.rotary(k)), [type] * 2), q, k)
    for distance in range(-7, 8):
        along = np.diagonal(scores, distance)
        np.testing.assert_allclose(along, along[0], rtol=1e-12)


def test_a_symbolic_length():
    term = reverse(build(ops.rotary, [NdArrayType((Dim("t"), 4), Dtype.float64)]))
    (x,) = normal((5, 4))
    y, back = evaluate(term, x, x)
    np.testing.assert_allclose(np.linalg.norm(y), np.linalg.norm(x))
    np.testing.assert_array_equal(y[0], x[0])
    np.testing.assert_array_equal(back[0], x[0])


REFUSED = {
    "an odd width": (lambda x: ops.rotary(x), ShapeError),
    "a base of 0": (lambda x: ops.rotary(x, 0.0), OptionError),
    "groups that do not divide the channels": (lambda x: ops.group_norm(x, 3), ShapeError),
    "no groups": (lambda x: ops.group_norm(x, 0), ShapeError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_shapes_and_groups_are_refused(name):
    function, error = REFUSED[name]
    with pytest.raises(error):
        build(function, [NdArrayType((2, 4, 5))])
