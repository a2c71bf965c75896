"""Arrays of converted int32 are stored as int32, and nothing else is narrowed."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dtype, NdArrayType, build, ops
from catgrad.functors import reverse
from catgrad.loops.ir.nest import scalars, statements
from catgrad.loops.ir.scalar import IndexValue, Space
from catgrad.loops.ir.steps import kernels
from catgrad.loops.memory_plan import planned
from catgrad.loops.reference import run
from catgrad.programs.program import evaluate
from catgrad.programs.program import lower as straight
from tests.kernels import compiled

IMAGES, ROWS = NdArrayType((4, 3, 8, 8)), NdArrayType((5, 12))


def temporaries(lowered):
    """Return the dtypes of the whole numbers that are stored between kernels or within one."""
    buffers = {b for k in kernels(lowered.steps) for b, _ in (*k.reads, *k.writes)}
    kept = [b for b in buffers if b.space in (Space.WORKSPACE, Space.LOCAL)]
    return {b.type.dtype for b in kept if not b.type.dtype.is_floating}


def assert_right(lowered, term, *arrays):
    wanted = evaluate(straight(term), *arrays)
    for found, each in zip(run(lowered, *arrays, plan=planned(lowered)), wanted, strict=True):
        assert found.dtype == each.dtype
        np.testing.assert_array_equal(found, each)


@pytest.fixture
def images():
    return np.random.default_rng(0).permutation(4 * 3 * 8 * 8).reshape(4, 3, 8, 8).astype(np.float32)


def test_places_of_maxima_are_stored_and_compared_in_32_bits(images):
    term = reverse(build(lambda x: ops.max_pool(x, 2), [IMAGES]))
    lowered = compiled(term)
    assert temporaries(lowered) == {Dtype.int32}
    every = (x for k in kernels(lowered.steps) for s in statements(k.body) for x in scalars(s))
    assert {x.dtype for root in every for x in root.nodes() if isinstance(x, IndexValue)} == {Dtype.int32}
    assert_right(lowered, term, images, np.ones((4, 3, 4, 4), np.float32))


def test_results_keep_their_dtype():
    term = build(lambda x: (ops.argmax(x, 1), ops.argmin(x, 0)), [ROWS])
    lowered = compiled(term)
    assert [result.type.dtype for result in lowered.results] == [Dtype.int64] * 2
    assert_right(lowered, term, np.random.default_rng(0).random((5, 12), np.float32))


def test_places_that_are_indices_or_numbers_keep_their_values():
    """Gather by places, and multiply them beyond 32 bits."""

    def function(x):
        places = ops.argmax(x, 1)
        return ops.gather(ops.transpose(x), places), places * 2**40, ops.sum(ops.cast(places, Dtype.float32))

    term = build(function, [ROWS])
    assert_right(compiled(term), term, np.random.default_rng(1).random((5, 12), np.float32))
