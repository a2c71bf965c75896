"""Cumulative sums, extrema and log-sum-exp along any axis, at ties, infinities and NaN."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.errors import DtypeError
from catgrad.ops.reduce import broadcast
from catgrad.targets import get_backend
from catgrad.terms.structural import zeros_like
from catgrad.testing import run_on
from tests.conformance.pytorch import arrays_with_axis, assert_as_torch, awkward, torch
from tests.targets import drawn, on_targets, on_targets_with


@on_targets_with("nan")
@pytest.mark.parametrize("backwards", [False, True])
@drawn(25, drawn=arrays_with_axis(elements=awkward))
def test_cumulative_sums(target, backwards, drawn):
    x, axis = drawn

    def theirs(x):
        return x.flip(axis).cumsum(axis).flip(axis) if backwards else x.cumsum(axis)

    assert_as_torch(target, lambda x: ops.cumsum(x, axis, backwards), theirs, x)


@on_targets
@pytest.mark.parametrize("dtype", [Dtype.int32, Dtype.int64])
def test_cumulative_sums_of_integers_keep_their_dtype(target, dtype):
    x = np.array([2**31 - 1, 1, 5], dtype.numpy)
    [found] = run_on(get_backend(target), build(ops.cumsum, [NdArrayType((3,), dtype)]), x)
    np.testing.assert_array_equal(found, np.cumsum(x, dtype=dtype.numpy))
    assert found.dtype == dtype.numpy


@on_targets_with("nan")
@drawn(25, drawn=arrays_with_axis(least=1, elements=awkward))
def test_minima_and_their_indices(target, drawn):
    x, axis = drawn
    assert_as_torch(target, lambda x: ops.argmin(x, axis), lambda x: x.argmin(axis), x)
    x = np.where(np.isnan(x), 3.0, x)  # beside a NaN, PyTorch divides the cotangent by 0
    assert_as_torch(target, lambda x: ops.min(x, axis), lambda x: x.amin(axis), x)


@on_targets_with("nan")
def test_nan_is_the_minimum_and_the_maximum(target):
    x = np.array([[1.0, np.nan, -np.inf, np.nan]])
    for reduce, wanted in ((ops.min, np.nan), (ops.max, np.nan), (ops.argmin, 1), (ops.argmax, 1)):
        [found] = run_on(get_backend(target), build(reduce, [NdArrayType(x.shape, Dtype.float64)]), x)
        np.testing.assert_array_equal(found, [wanted])


@on_targets
def test_a_sum_of_which_a_label_selects_one_term_is_0_for_labels_that_select_none(target):
    """A label is no index of 32 bits, to which it might wrap around."""
    labels, x = np.array([2, 0, -1, 24, 2**32 + 1, -(2**32)]), np.linspace(-1, 1, 144, dtype=np.float32)

    def selected(x, label):
        hit = broadcast(label, (6, 24), (1,)) == broadcast(ops.iota(24, Dtype.int64), (6, 24))
        return ops.sum(ops.select(hit, ops.exp(x), zeros_like(x)), 1)

    types, x = [NdArrayType((6, 24)), NdArrayType((6,), Dtype.int64)], x.reshape(6, 24)
    [found] = run_on(get_backend(target), build(selected, types), x, labels)
    np.testing.assert_allclose(found, [*np.exp(x[[0, 1], [2, 0]]), 0, 0, 0, 0], rtol=1e-6)


def test_truth_values_are_not_summed():
    """A count is a sum of integers; whether one holds is any."""
    truths = NdArrayType((3, 2), Dtype.bool)
    for reduce in (ops.sum, ops.cumsum):
        with pytest.raises(DtypeError, match="must be numbers.*cast them first, .* any or all"):
            build(lambda x, reduce=reduce: reduce(x, 0), [truths])
    assert build(lambda x: ops.sum(ops.cast(x, Dtype.int32), 0), [truths]).target.table[0].shape == (2,)


@on_targets_with("nan")
@drawn(25, drawn=arrays_with_axis(least=1, elements=awkward))
def test_logarithms_of_sums_of_exponentials(target, drawn):
    x, axis = drawn
    assert_as_torch(target, lambda x: ops.logsumexp(x, axis), lambda x: torch.logsumexp(x, axis), x)
    assert_as_torch(
        target, lambda x: ops.logsumexp(1000 * x, axis), lambda x: torch.logsumexp(1000 * x, axis), x
    )


@on_targets
@pytest.mark.parametrize("shape", [(1,), (1, 1), (3, 1), (1, 3)])
def test_axes_of_one_element(target, shape):
    """Sums are initialised even without a loop."""
    x = np.random.default_rng(0).normal(size=shape)
    assert_as_torch(target, lambda x: ops.logsumexp(x, 0), lambda x: torch.logsumexp(x, 0), x)
    assert_as_torch(target, lambda x: ops.softmax(x, -1), lambda x: torch.softmax(x, -1), x)


@on_targets_with("symbolic sizes")
@pytest.mark.parametrize("shape", [(210_000,), (210_000, 3), (3, 70_000)])
def test_long_sums_are_accurate(target, shape):
    """A float32 accumulator of 100,000 terms of 1/3 would have an error of hundredths."""
    x = np.full(shape, 0.34668, np.float32)
    symbolic = NdArrayType((Dim("n"), *shape[1:]))
    for term in (build(ops.mean, [symbolic]), build(ops.mean, [NdArrayType(shape)])):
        [found] = run_on(get_backend(target), term, x)
        np.testing.assert_allclose(found, x.flat[0], rtol=2e-6)
