"""All primitives on JAX: special values, integer division and 16 bits, many operations compiled together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import Dtype, NdArrayType, build, ops
from catgrad.functors import Expand, reverse
from catgrad.programs.program import Program, evaluate, lower
from catgrad.targets import get_backend
from catgrad.testing import draw_arrays, run_on
from tests.conformance.pytorch import arrays_with_axis, awkward
from tests.conformance.test_16_bits import CASES, EPSILON
from tests.conformance.test_jax import module, source_of
from tests.targets import TOGETHER

jax = pytest.importorskip("jax", reason="JAX, which runs what is tested here, is not installed")
JAX = get_backend("jax")


LEAST = np.finfo(np.float64).tiny
"""The least normal number: XLA on a CPU flushes smaller ones to 0."""


def along(axis, size):
    """Build operations along an axis, and predicates of elements."""
    return lambda x, index: [
        *ops.sort(x, axis), *ops.sort(x, axis, descending=True), *ops.top_k(x, 1, axis, largest=False),
        ops.cumsum(x, axis), ops.cumsum(x, axis, backwards=True), ops.logsumexp(x, axis),
        ops.min(x, axis), ops.max(x, axis), ops.argmin(x, axis), ops.argmax(x, axis), ops.mean(x, axis),
        ops.any(x > 0, axis), ops.all(x != 1, axis), ops.is_nan(x), ops.is_finite(x),
        (x > 0) & ~(x == 1) | (x != x) & (x <= 0), ops.clamp(x, -1, 2), ops.clamp(x, high=1),
        ops.gelu(x), ops.silu(x), ops.take_along_axis(x, index, axis),
        ops.scatter_add_along_axis(ops.take_along_axis(x, index, axis), index, size, axis),
    ]  # fmt: skip


@pytest.mark.parametrize("way", [lambda f: f, reverse], ids=["forward", "reverse"])
@given(drawn=arrays_with_axis(least=1, elements=awkward), seed=st.integers(0, 9))
@settings(max_examples=8)
def test_operations_along_axes_at_special_values(way, drawn, seed):
    x, axis = drawn
    index = np.random.default_rng(seed).integers(0, x.shape[axis], x.shape)
    types = [NdArrayType(x.shape, Dtype.float64), NdArrayType(x.shape, Dtype.int64)]
    term = way(build(along(axis, x.shape[axis]), types))
    given = [x, index, *draw_arrays(tuple(term.source.table))[2:]]
    with np.errstate(all="ignore"):
        wanted = evaluate(term, *given)
    for a, b in zip(run_on(JAX, term, *given), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
        assert a.dtype == b.dtype


@pytest.mark.parametrize("dtype", [Dtype.int32, Dtype.int64])
def test_integer_division_rounds_down_and_survives_0(dtype):
    ends = np.iinfo(dtype.numpy)
    some = [ends.min, ends.max, -7, -1, 0, 1, 2, 7]
    x, y = (a.ravel().astype(dtype.numpy) for a in np.meshgrid(some, some))
    term = build(lambda x, y: [x // y, x % y, x // 3, x % -3], [NdArrayType(x.shape, dtype)] * 2)
    for a, b in zip(run_on(JAX, term, x, y), evaluate(term, x, y), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


@pytest.mark.parametrize("index", [[[0, 3]], [[-1, 0]], [[0, 2**32 + 1]]])
def test_indices_out_of_range_give_nan(index):
    types = [NdArrayType((1, 3)), NdArrayType((1, 2), Dtype.int64)]
    x, wrong = np.ones((1, 3), np.float32), int(np.argmax(np.abs(index)))
    [taken] = run_on(JAX, build(ops.take_along_axis, types), x, np.array(index))
    assert np.isnan(taken[0, wrong]) and taken[0, 1 - wrong] == 1
    add = build(lambda x, i: ops.scatter_add_along_axis(x, i, 3), [NdArrayType((1, 2)), types[1]])
    [total] = run_on(JAX, add, x[:, :2], np.array(index))
    assert np.isnan(total).all()


FLOATS = Dtype.float32, Dtype.float64
WHOLE = {
    Dtype.bool: [False, True],
    Dtype.int32: [0, 1, -1, 2**24 + 1, 2**31 - 1, -(2**31)],
    Dtype.int64: [0, 1, -1, 2**24 + 1, 2**31, 2**32 - 1, 2**53 + 1, -(2**53) - 1, 2**62],
    Dtype.uint32: [0, 1, 2**24 + 1, 2**31, 2**32 - 1],
}


def test_casts_agree_with_numpy():
    """Cast integers to every dtype, and floats to booleans and floats."""
    arrays = [np.array(numbers, dtype.numpy) for dtype, numbers in WHOLE.items()]
    awkward_too = [0.0, -0.0, 0.5, -2.5, 1e-30, 1e38, 1e300, LEAST, np.inf, -np.inf, np.nan]
    with np.errstate(all="ignore"):
        arrays += [np.array(awkward_too).astype(dtype.numpy) for dtype in FLOATS]
        arrays[-2][np.abs(arrays[-2]) < np.finfo(np.float32).tiny] = 0
    to = [*WHOLE, *FLOATS]
    casts = [(a, b) for a in range(len(arrays)) for b in to if a < len(WHOLE) or b in (Dtype.bool, *FLOATS)]
    types = [NdArrayType(x.shape, dtype) for x, dtype in zip(arrays, to, strict=True)]
    term = build(lambda *x: [ops.cast(x[a], b) for a, b in casts], types)
    with np.errstate(all="ignore"):
        wanted = [arrays[a].astype(b.numpy) for a, b in casts]
    for found, reference in zip(run_on(JAX, term, *arrays), wanted, strict=True):
        np.testing.assert_array_equal(found, reference)
        assert found.dtype == reference.dtype


REVERSED = [each for each in CASES if each[-1].reversed]


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, len(REVERSED), TOGETHER["jax"]))
def test_every_operation_of_16_bits(first):
    """The tolerance is two units in the last place, of the maximum where sums may cancel."""
    declared, dtypes, chosen = zip(*REVERSED[first : first + TOGETHER["jax"]], strict=True)
    terms = [case.term for case in chosen]
    functions = [lower(Expand(JAX.has)(f), f"f{k}", doc="One of many.") for k, f in enumerate(terms)]
    emitted = vars(module(JAX.emit(Program("cases", tuple(functions))).source))
    arrays = [draw_arrays(tuple(case.term.source.table), case.domain) for case in chosen]
    together = jax.jit(lambda *all: [emitted[f"f{k}"](*inputs) for k, inputs in enumerate(all)])
    results = together(*arrays)
    for op, dtype, term, inputs, found in zip(declared, dtypes, terms, arrays, results, strict=True):
        for a, b in zip(found, evaluate(term, *inputs), strict=True):
            x, y = np.asarray(a).astype(np.float64), b.astype(np.float64)
            scale = max(1, np.max(np.abs(y), initial=0, where=np.isfinite(y))) if not op.elementwise else 1
            near = 2 * EPSILON[dtype]
            np.testing.assert_allclose(x, y, rtol=near, atol=near * scale, err_msg=str(op))
            assert a.dtype == b.dtype


ROUNDED_ONCE = (
    ops.sigmoid, ops.silu, ops.gelu, ops.softmax, ops.log_softmax, ops.logsumexp, ops.expm1, ops.log1p,
    ops.rsqrt, ops.tanh, ops.erf, ops.cumsum, lambda x: ops.sum(x, 1), lambda x: ops.mean(x, 1),
    lambda x: ops.transpose(x) @ x,
)  # fmt: skip


@pytest.mark.parametrize("dtype", EPSILON, ids=lambda d: d.name)
def test_16_bits_are_rounded_once(dtype):
    """Sums of 1000 terms differ from float64 by at most 0.7 units in the last place."""
    x = np.random.default_rng(0).uniform(0.1, 4, (3, 1000)).astype(dtype.numpy)
    function = lambda x: [f(x) for f in ROUNDED_ONCE]
    found = run_on(JAX, build(function, [NdArrayType(x.shape, dtype)]), x)
    exact = evaluate(build(function, [NdArrayType(x.shape, Dtype.float64)]), x.astype(np.float64))
    for a, b in zip(found, exact, strict=True):
        least = float(dtype.limits.tiny)
        np.testing.assert_allclose(a.astype(np.float64), b, rtol=0.7 * EPSILON[dtype], atol=least)


def test_large_arrays_are_not_released_by_name():
    """The compiler releases arrays itself."""

    def twice(x):
        y = ops.exp(x)
        total = ops.sum(y * y) + ops.sum(y)
        z = ops.sin(x)
        return total, total * total, z + ops.broadcast(ops.sum(z), z.shape)

    term = build(twice, [NdArrayType((2**16,))])
    numpy = get_backend("numpy")
    assert "    del exp\n" in source_of(term, numpy)
    assert "    del " not in source_of(term)
