"""Gather, scatter and sorting along any axis."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.errors import DtypeError, OptionError, ShapeError
from catgrad.functors import reverse
from catgrad.loops.ir.nest import Check, Kernel, statements
from catgrad.loops.ir.steps import every_step
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.testing import run_on
from tests.conformance.pytorch import arrays_with_axis, assert_as_torch, awkward, torch
from tests.kernels import compiled
from tests.targets import drawn, on_targets, on_targets_with


@st.composite
def indexed(draw):
    """Draw an array, an axis, and indices along it, with repetitions."""
    x, axis = draw(arrays_with_axis(least=1))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    shape = (*x.shape[:axis], draw(st.integers(0, 5)), *x.shape[axis + 1 :])
    return x, axis, rng.integers(0, x.shape[axis], shape)


@on_targets
@drawn(25, drawn=indexed())
def test_elements_are_taken_along_an_axis(target, drawn):
    x, axis, index = drawn
    assert_as_torch(
        target, lambda x, i: ops.take_along_axis(x, i, axis), lambda x, i: torch.gather(x, axis, i), x, index
    )


@on_targets
@drawn(25, drawn=indexed())
def test_elements_are_added_along_an_axis(target, drawn):
    x, axis, index = drawn
    y = np.random.default_rng(0).normal(size=index.shape)
    assert_as_torch(
        target,
        lambda y, i: ops.scatter_add_along_axis(y, i, x.shape[axis], axis),
        lambda y, i: torch.zeros(x.shape, dtype=y.dtype).scatter_add(axis, i, y),
        y,
        index,
    )


@on_targets
@drawn(
    25,
    drawn=arrays_with_axis(least=3),
    index=st.sampled_from([[0, 2, 0], [], [[1, 1, 2], [0, 0, 0]]]),
)
def test_slices_are_gathered_along_an_axis(target, drawn, index):
    """The reference is NumPy's `take`, because PyTorch's indices have one axis only."""
    x, axis = drawn
    numbers = np.array(index, np.int64)
    types = [NdArrayType(x.shape, Dtype.float64), NdArrayType(numbers.shape, Dtype.int64)]
    term = build(lambda x, i: ops.take(x, i, axis), types)
    [found] = run_on(get_backend(target), term, x, numbers)
    np.testing.assert_array_equal(found, np.take(x, numbers, axis))


@on_targets
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gradients_of_gathered_slices(target, axis):
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    index = np.array([2, 0, 2])
    assert_as_torch(
        target, lambda x, i: ops.take(x, i, axis), lambda x, i: torch.index_select(x, axis, i), x, index
    )


ACCESSES = {
    "along an axis": (ops.take_along_axis, ops.scatter_add_along_axis, (1, 3), (1, 2)),
    "rows": (ops.gather, ops.scatter_add, (3, 2), (2,)),
}
"""Functions that read and add at indices, with shapes of an array and of its indices."""


@on_targets
@pytest.mark.parametrize("index", [[0, 3], [-1, 0]])
@pytest.mark.parametrize("name", ACCESSES)
def test_indices_out_of_range_are_refused(target, name, index):
    read, add, shape, places = ACCESSES[name]
    types = [NdArrayType(shape), NdArrayType(places, Dtype.int64)]
    x = np.zeros(shape, np.float32)
    for term in (build(read, types), build(lambda x, i: add(read(x, i * 0), i, 3), types)):
        for compute in (lambda f, *a: run_on(get_backend(target), f, *a), evaluate):
            with pytest.raises(IndexError, match="an index must lie in"):
                compute(term, x, np.reshape(index, places))


@on_targets_with("symbolic sizes")
def test_gather_from_a_symbolic_batch(target):
    n = Dim("n")
    types = [NdArrayType((n, 3)), NdArrayType((n, 1), Dtype.int64)]
    term = reverse(build(ops.take_along_axis, types))
    x, index, dy = np.float32([[1, 2, 3], [4, 5, 6]]), np.array([[2], [0]]), np.float32([[1], [1]])
    y, dx, _ = run_on(get_backend(target), term, x, index, dy)
    assert y.tolist() == [[3], [4]]
    assert dx.tolist() == [[0, 0, 1], [1, 0, 0]]


def test_shapes_and_dtypes_that_do_not_fit_are_refused():
    x = NdArrayType((2, 3))
    with pytest.raises(DtypeError, match="must be an integer array"):
        build(ops.take_along_axis, [x, x])
    with pytest.raises(ShapeError, match="3 elements along axis 1"):
        build(ops.take_along_axis, [x, NdArrayType((3, 3), Dtype.int64)])
    with pytest.raises(ShapeError, match="one index for each element"):
        build(lambda x, i: ops.scatter_add_along_axis(x, i, 4), [x, NdArrayType((2, 2), Dtype.int64)])


@pytest.mark.covering
@on_targets_with("nan")
@pytest.mark.parametrize("descending", [False, True])
@drawn(25, drawn=arrays_with_axis(elements=awkward))
def test_sorting_is_stable_and_a_nan_is_greatest(target, descending, drawn):
    x, axis = drawn
    for part in (0, 1):
        assert_as_torch(
            target,
            lambda x, part=part: ops.sort(x, axis, descending)[part],
            lambda x, part=part: torch.sort(x, dim=axis, descending=descending, stable=True)[part],
            x,
        )


@pytest.mark.covering
@on_targets
@pytest.mark.parametrize("largest", [False, True])
@drawn(25, drawn=arrays_with_axis(least=2), k=st.integers(0, 2))
def test_maxima_and_minima(target, largest, drawn, k):
    """All elements differ, because PyTorch does not specify which of equal elements it selects."""
    x, axis = drawn
    x = np.argsort(x, axis=None).reshape(x.shape) / 2
    for part in (0, 1):
        assert_as_torch(
            target,
            lambda x, part=part: ops.top_k(x, k, axis, largest)[part],
            lambda x, part=part: torch.topk(x, k, dim=axis, largest=largest)[part],
            x,
        )


@on_targets
def test_ties_select_the_first_elements(target):
    x = np.array([1.0, 3.0, np.nan, 3.0, 3.0, np.nan])
    term = build(lambda x: ops.top_k(x, 4), [NdArrayType((6,), Dtype.float64)])
    values, places = run_on(get_backend(target), term, x)
    np.testing.assert_array_equal(values, [np.nan, np.nan, 3, 3])
    assert places.tolist() == [2, 5, 1, 3]
    with pytest.raises(OptionError, match="between 0 and the size"):
        build(lambda x: ops.top_k(x, 7), [NdArrayType((6,))])


@pytest.mark.parametrize("rearranged", [lambda i: i, lambda i: ops.reshape(i, 6), ops.transpose])
def test_indices_that_several_operations_read_are_checked_once(rearranged):
    """A gather and the scatter that is its reverse read one array of indices."""

    def function(table, indices):
        rows = ops.gather(table, indices)
        again = ops.gather(table, rearranged(indices))
        return ops.sum(rows) + ops.sum(again)

    term = reverse(build(function, [NdArrayType((5, 2)), NdArrayType((2, 3), Dtype.int64)]))
    lowered = compiled(term)
    checks = [
        s
        for step in every_step(lowered.steps)
        if isinstance(step, Kernel)
        for s in statements(step.body)
        if isinstance(s, Check)
    ]
    assert len(checks) == 1
