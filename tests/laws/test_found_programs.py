"""Regressions: failing random programs, shrunk, on every target with symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.testing import draw_arrays
from tests.differential import check_programs
from tests.programs import Program
from tests.rounding import spread
from tests.targets import on

N = Dim("n")


def product_with_copies_of_a_number(x):
    """The operand of the product was not materialised, and had no address."""
    places = ops.cast(ops.argsort(x, 2), Dtype.float32)
    return x @ ops.broadcast(ops.sum(places), (1, N, N))


def rows_added_to_the_only_one(x, number):
    """The index of the only row is 0; it was read from an array that was not passed."""
    place = ops.broadcast(ops.cast(number, Dtype.int64) % 1, (N,))
    return ops.reshape(ops.scatter_add(x, place, 1))


def sums_beside_no_rows(x):
    """An element of an empty array was read, under a condition that is always false."""
    rows = ops.scatter_add(x, ops.cast(x, Dtype.int32), 0)
    return ops.argmax(ops.cumsum(ops.pad(rows, [(0, 2)]), 0), 0)


def counts_of_what_is_not_0(x):
    """A cast of a cast to bool lacked parentheses in C: a fraction became 0 first."""
    return ops.cumsum(ops.cast(ops.cast(x, Dtype.bool), Dtype.uint32), 1)


def rows_counted_beyond_the_last(x):
    """Indices that are counted were taken to be within any array: C read beyond it."""
    return ops.gather(x, ops.iota(N + 1))


def sums_of_rows_counted_beyond_the_last(x):
    """C wrote beyond the result."""
    return ops.scatter_add(x, ops.iota(N), 3)


FOUND = {
    product_with_copies_of_a_number: [NdArrayType((1, 5, N))],
    rows_added_to_the_only_one: [NdArrayType((N,)), NdArrayType(())],
    sums_beside_no_rows: [NdArrayType((0,))],
    counts_of_what_is_not_0: [NdArrayType((4, 4))],
    rows_counted_beyond_the_last: [NdArrayType((N,))],
    sums_of_rows_counted_beyond_the_last: [NdArrayType((N,))],
}


@on("numpy", "torch", "jax", "c")
def test_scores_that_round_by_more_than_an_exponential_holds(target):
    """XLA and gcc subtract the greatest, a rounded product, from one that is not; 0 is left of all."""
    term = build(lambda x: ops.softmax(x * 0.7), [NdArrayType((1, 2))])
    check_programs(target, [Program(term, (np.array([[-1e30, 1e30]], np.float32),))])


def test_a_result_that_no_perturbed_run_has_is_unsure():
    """Each of them has NaN, as gcc has with some flags, so the whole number 0 where the reference has 1."""

    def rows(x, count, columns):
        twice = ops.reshape(ops.broadcast(ops.reshape(x, 6), (2, 6)), 12)
        return ops.reshape(ops.slice(twice, (0,), (count * columns,)), count, columns)

    def function(x):
        return ops.cast(ops.attention(x, rows(x, 4, 2), rows(x, 4, 3)), Dtype.int64)

    x = np.array([[-3, 2], [-1e30, 1], [np.inf, 3]], np.float32)
    [error] = spread(build(function, [NdArrayType((3, 2))]), x)
    assert np.isinf(error[0, 0])


@on("numpy", "torch", "jax", "c")
def test_scores_that_a_mask_selects_round_as_well(target):
    """Gcc unrolls the loop over keys, where the mask is known, and subtracts from what is not rounded."""
    shapes = (1, 1, 3), (1, 3, 3), (1, 3, 2)
    types = [NdArrayType(shape, Dtype.float64) for shape in shapes]
    arrays = np.array([[[1 / 3, 0, 1 / 3]]]), np.full(shapes[1], 1e30), np.full(shapes[2], 2.0)
    term = build(lambda q, k, v: ops.attention(q, k, v, causal=True), types)
    check_programs(target, [Program(term, arrays)])


@on("numpy", "torch", "jax", "c")
@pytest.mark.parametrize("function", FOUND)
def test_programs_reduced_from_random_failures(target, function):
    types = FOUND[function]
    arrays = draw_arrays([type.substitute({"n": 4}) for type in types])
    check_programs(target, [Program(build(function, types), tuple(arrays))])
