"""Forms of the target numpy: contractions as `@` for any arrangement of axes, and the error function."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erf

from catgrad import Dim, Dtype, NdArrayType, ops
from catgrad.ops.contract import Contract
from catgrad.programs.program import Program, lower
from catgrad.targets import get_backend
from catgrad.terms.build import build
from catgrad.testing import run_on

NUMPY = get_backend("numpy")
SIZES = (2, 3, 1, 4, 2, 3, 2, 1)


@st.composite
def contractions(draw, least=0):
    """Draw the labels of a contraction with up to two axes of each kind, in any order."""
    labels = iter(range(8))
    counts = [draw(st.integers(low, 2)) for low in (0, least, least, least)]
    batch, rows, summed, columns = ([next(labels) for _ in range(count)] for count in counts)
    sides = ([*batch, *rows, *summed], [*batch, *summed, *columns], [*batch, *rows, *columns])
    return Contract(*(tuple(draw(st.permutations(side))) for side in sides))


def types_of(op, sizes=SIZES):
    return [NdArrayType(tuple(sizes[label] for label in side)) for side in (op.left, op.right)]


@given(contractions(), st.integers(0, 99))
def test_any_arrangement_of_axes_equals_einsum(op, seed):
    rng = np.random.default_rng(seed)
    types = types_of(op)
    x, y = (rng.integers(-4, 5, type.shape).astype(np.float32) for type in types)
    [found] = run_on(NUMPY, build(lambda x, y: op(x, y), types), x, y)
    np.testing.assert_array_equal(found, np.einsum(op.subscripts, x, y))


@given(contractions(least=1))
def test_products_of_matrices_are_not_left_to_einsum(op):
    sizes = (Dim("n"), *SIZES[1:])
    artifact = NUMPY.emit(
        Program("case", (lower(build(lambda x, y: op(x, y), types_of(op, sizes)), "f", doc=""),))
    )
    assert "einsum" not in artifact.source


@pytest.mark.parametrize(("dtype", "ulps"), [(Dtype.float32, 8), (Dtype.float64, 4)])
def test_the_error_function_in_each_precision(dtype, ulps):
    edges = [0.0, -0.0, 1e-30, 0.46875, 4.0, -4.0, 5.9, 6.1, 40.0, np.inf, -np.inf, np.nan]
    x = np.array([*np.linspace(-6, 6, 20001), *edges]).astype(dtype.numpy)
    [found] = run_on(NUMPY, build(lambda x: ops.erf(x), [NdArrayType(x.shape, dtype)]), x)
    exact = erf(x.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(exact))
    assert np.nanmax(abs(found - exact) / np.spacing(abs(exact.astype(dtype.numpy)))) <= ulps
    assert np.nanmax(abs(found)) == 1
