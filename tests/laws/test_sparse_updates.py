"""Tables change only in rows that have a gradient: the same bits as an update of the whole table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.functors import Expand
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.nest import Loop
from catgrad.loops.ir.steps import kernels
from catgrad.loops.passes import PASSES
from catgrad.loops.reference import run
from catgrad.programs.program import lower as straight
from tests.kernels import VECTORS, has, prepared

EXPAND = Expand(has)
ROWS, WIDTH = 40, 3
DENSE = tuple(each for each in PASSES if each.__name__ != "update_sparsely")


def stepped(w, i, g, scale=0.1):
    return (w - scale * ops.scatter_add(g, i, ROWS),)


def lowered_of(function, terms, passes=PASSES, in_place=((0, 0),), dtype=Dtype.float32):
    shapes = (
        NdArrayType((ROWS, WIDTH), dtype),
        NdArrayType((terms,), Dtype.int64),
        NdArrayType((terms, WIDTH), dtype),
    )
    term, machine = build(function, shapes), replace(VECTORS, passes=passes)
    return compile_kernels(prepared(straight(EXPAND(term))), machine, dict(in_place))


def extents(lowered):
    """Collect the extents of outermost loops: of all rows of the table, or of terms."""
    return {
        item.variable.extent
        for kernel in kernels(lowered.steps)
        for item in kernel.body
        if isinstance(item, Loop)
    }


def drawn(terms, seed, dtype=np.float32):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(ROWS, WIDTH)).astype(dtype)
    table[0] = -0.0
    return table, rng.integers(0, ROWS // 4, terms), rng.normal(size=(terms, WIDTH)).astype(dtype)


@settings(max_examples=30)
@given(st.integers(0, 10), st.integers(0, 99), st.sampled_from([Dtype.float32, Dtype.float64]), st.booleans())
def test_every_bit_is_that_of_the_whole_update(terms, seed, dtype, symbolic):
    """Several terms fall into one row, and most rows have none."""
    count = Dim("terms") if symbolic else terms
    lowered, dense = (lowered_of(stepped, count, passes, dtype=dtype) for passes in (PASSES, DENSE))
    arrays = drawn(terms, seed, dtype.numpy)
    [found], [wanted] = (run(each, *(array.copy() for array in arrays)) for each in (lowered, dense))
    assert found.tobytes() == wanted.tobytes()


def test_no_loop_is_over_the_whole_table():
    assert extents(lowered_of(stepped, 8)) == {8}
    assert ROWS in extents(lowered_of(stepped, 8, DENSE))


CASES = {
    "more terms than rows": (stepped, 80, [(0, 0)]),
    "a result beside the table": (stepped, 8, []),
    "indices that the function overwrites": (lambda w, i, g: (*stepped(w, i, g), i + 1), 8, [(0, 0), (1, 1)]),
    "indices that are in the table": (
        lambda w, i, g: stepped(w, ops.cast(ops.reshape(ops.slice(w, (0, 0), (8, 1)), 8), Dtype.int64), g),
        8,
        [(0, 0)],
    ),
    "a negative factor, which makes -0 to 0": (lambda w, i, g: stepped(w, i, g, -0.1), 8, [(0, 0)]),
    "an infinite factor, which makes every row NaN": (lambda w, i, g: stepped(w, i, g, np.inf), 8, [(0, 0)]),
    "decay": (lambda w, i, g: (0.9 * w - 0.1 * ops.scatter_add(g, i, ROWS),), 8, [(0, 0)]),
    "a gradient that is a result, too": (
        lambda w, i, g: (w - 0.1 * (d := ops.scatter_add(g, i, ROWS)), d),
        8,
        [(0, 0)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_other_updates_are_of_the_whole_table(name):
    function, terms, in_place = CASES[name]
    lowered = lowered_of(function, terms, in_place=in_place)
    assert ROWS in extents(lowered)
    arrays = drawn(terms, 0)
    arrays[0][:, 0] = np.abs(arrays[0][:, 0])  # where they are indices
    dense = lowered_of(function, terms, DENSE, in_place)
    with np.errstate(all="ignore"):
        for found, wanted in zip(
            run(lowered, *(a.copy() for a in arrays)), run(dense, *(a.copy() for a in arrays)), strict=True
        ):
            np.testing.assert_array_equal(found, wanted)
