"""Integers on every target: arithmetic modulo 2ⁿ, extrema, powers and bits, against NumPy and Python."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from catgrad import Dtype, NdArrayType, build, ops
from catgrad.errors import DtypeError
from catgrad.functors import reverse
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.testing import run_on
from tests.targets import drawn, on_all_targets_with

DTYPES = [Dtype.int32, Dtype.int64, Dtype.uint32]
SHAPE = (2, 3)

OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.and_, operator.or_, operator.xor,
    operator.lshift, operator.rshift, operator.floordiv, operator.mod,
]  # fmt: skip
PAIRS = {ops.maximum: np.maximum, ops.minimum: np.minimum}
REDUCTIONS = {
    ops.sum: lambda x, axis: np.sum(x, axis, x.dtype),
    ops.cumsum: lambda x, axis: np.cumsum(x, axis, x.dtype),
    ops.max: np.max,
    ops.min: np.min,
    ops.argmax: np.argmax,
    ops.argmin: np.argmin,
}


def whole(dtype):
    """Draw integers of all sizes, with many extreme and small ones."""
    limits = np.iinfo(dtype.numpy)
    ends = (limits.min, limits.max, 0, 1, 2, 31, limits.bits - 1, limits.bits)
    return arrays(dtype.numpy, SHAPE, elements=st.sampled_from(ends) | st.integers(limits.min, limits.max))


def check(target, function, wanted, *given):
    term = build(function, [NdArrayType(x.shape, Dtype[x.dtype.name]) for x in given])
    for found in (evaluate(term, *given), run_on(get_backend(target), term, *given)):
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(x, y)
            assert x.dtype == y.dtype


@on_all_targets_with("wrapping", "64 bits")
@drawn(20, data=st.data(), dtype=st.sampled_from(DTYPES))
def test_numbers_and_bits_agree_with_numpy(target, data, dtype):
    """A shift by a negative number, or by all bits, gives 0."""
    x, y = data.draw(whole(dtype)), data.draw(whole(dtype))
    with np.errstate(all="ignore"):
        wanted = [f(x, y) for f in OPERATORS] + [f(x, y) for f in PAIRS.values()] + [-x, ~x]
    check(target, lambda x, y: [*(f(x, y) for f in [*OPERATORS, *PAIRS]), -x, ~x], wanted, x, y)


@on_all_targets_with("wrapping", "64 bits")
@drawn(20, data=st.data(), dtype=st.sampled_from(DTYPES))
def test_reductions_agree_with_numpy(target, data, dtype):
    x = data.draw(whole(dtype))
    wanted = [f(x, axis) for f in REDUCTIONS.values() for axis in (0, 1)]
    check(target, lambda x: [f(x, axis) for f in REDUCTIONS for axis in (0, 1)], wanted, x)


@on_all_targets_with("wrapping", "64 bits")
@drawn(20, data=st.data(), dtype=st.sampled_from(DTYPES))
def test_powers_are_those_modulo_2_to_the_number_of_bits(target, data, dtype):
    """A negative power is that of the inverse modulo 2ⁿ, which odd numbers have."""
    x, y = data.draw(whole(dtype)), data.draw(whole(dtype))
    bits = np.iinfo(dtype.numpy).bits
    power = [modular(int(a), int(b), bits) for a, b in zip(x.ravel(), y.ravel(), strict=True)]
    cube = [pow(int(a), 3, 2**bits) for a in x.ravel()]
    wanted = [np.array(each, np.uint64).astype(dtype.numpy).reshape(SHAPE) for each in (power, cube)]
    check(target, lambda x, y: [x**y, x**3], wanted, x, y)


def modular(x, y, bits):
    return 0 if y < 0 and x % 2 == 0 else pow(x, y, 2**bits)


@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (0, 2), None, ()])
@pytest.mark.parametrize(("ours", "theirs"), [(ops.max, np.amax), (ops.min, np.amin)])
def test_extrema_over_several_axes_share_the_cotangent_among_equals(axes, ours, theirs):
    """Equal elements share the cotangent across all reduced axes."""
    x = np.random.default_rng(0).integers(0, 3, (2, 3, 4)).astype(np.float64)
    term = build(lambda x: ours(x, axes), [NdArrayType(x.shape, Dtype.float64)])
    wanted = theirs(x, axis=axes, keepdims=True)
    [found] = evaluate(term, x)
    np.testing.assert_array_equal(found, wanted.reshape(found.shape))
    gradient = evaluate(reverse(term), x, np.ones_like(found))[1]
    chosen = x == wanted
    count = chosen.sum(axis=tuple(range(3)) if axes is None else axes, keepdims=True)
    np.testing.assert_allclose(gradient, chosen / count)


def test_bits_of_truth_values_are_connectives_and_floats_have_none():
    b, x = NdArrayType((2,), Dtype.bool), NdArrayType((2,))
    p, q = np.array([True, False]), np.array([True, True])
    both = build(lambda p, q: [p & q, p | q, p ^ q], [b, b])
    assert [y.tolist() for y in evaluate(both, p, q)] == [[True, False], [True, True], [False, True]]
    with pytest.raises(DtypeError, match="must be integers"):
        build(lambda x: x & x, [x])
    with pytest.raises(DtypeError, match="operands must be bool"):
        build(lambda x: ops.logical_and(x, x), [NdArrayType((2,), Dtype.int32)])
