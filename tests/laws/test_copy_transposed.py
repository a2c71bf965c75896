"""Nests copy what they read across rows in blocks: the same results, from loads of contiguous elements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from catgrad.backends.c.machine import MACHINE, companion
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catgrad import Dim, NdArrayType, build, ops
from catgrad.functors import Expand
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.nest import Loop, loops
from catgrad.loops.ir.scalar import Space
from catgrad.loops.ir.steps import kernels
from catgrad.loops.memory_plan import planned
from catgrad.loops.passes import PASSES
from catgrad.loops.passes.simplify.contract_arrays import contract_arrays
from catgrad.loops.passes.vectors.copy_transposed import transposed_copier
from catgrad.loops.printing.interface import Interface
from catgrad.loops.printing.kernels import KernelPrinter
from catgrad.loops.printing.lines import LocalArray
from catgrad.loops.reference import run
from catgrad.programs.program import evaluate
from catgrad.programs.program import lower as straight
from catgrad.targets import get_backend
from catgrad.testing import draw_arrays
from tests.kernels import VECTORS, has, prepared
from tests.nests import arrays_for, nests, run_in_order

EXPAND = Expand(has)
BEFORE = replace(
    VECTORS, passes=tuple(each for each in PASSES if each.__name__ != "copy_transposed"), kernel_passes=()
)


def lowered_of(term, machine=BEFORE, in_place=None):
    return compile_kernels(prepared(straight(EXPAND(term))), machine, in_place)


def strides_of_loads(lowered):
    """Collect the strides along innermost loops of all loads of arrays."""
    every = [loop for kernel in kernels(lowered.steps) for loop in loops(kernel.body)]
    innermost = [loop for loop in every if not any(isinstance(item, Loop) for item in loop.body)]
    return {buffer.stride(at, loop.variable) for loop in innermost for buffer, at in loop.reads}


def names_of_copies(lowered):
    return sorted(
        loop.body[0].buffer.name
        for kernel in kernels(lowered.steps)
        for loop in loops(kernel.body)
        if not isinstance(loop.body[0], Loop) and loop.body[0].buffer.space is Space.LOCAL
    )


def added(x, y):
    return ops.transpose(x) + y


def normalised(x, y):
    return ops.softmax(ops.transpose(x)) * y


def summed(x, y):
    return ops.sum(ops.transpose(x) * y, 1), ops.sum(ops.transpose(x) * y, 0)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("width", [4, 6, 18, 33])
@pytest.mark.parametrize("rows", [1, 3, 4, 11])
@pytest.mark.parametrize("function", [added, normalised, summed])
def test_copies_preserve_the_meaning(function, rows, width, symbolic):
    count = Dim("rows") if symbolic else rows
    term = build(function, [NdArrayType((width, count)), NdArrayType((count, width))])
    arrays = draw_arrays((NdArrayType((width, rows)), NdArrayType((rows, width))), (-1.0, 1.0))
    before = lowered_of(term)
    after = transposed_copier(line=4, width=4, work=1)(before, VECTORS)
    for each in (after, contract_arrays(after, VECTORS)):
        for shuffled in (False, True):
            for found, wanted in zip(
                run(each, *arrays, shuffled=shuffled), run(before, *arrays), strict=True
            ):
                np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("function", [added, normalised])
@pytest.mark.parametrize("shape", [(8, 8), (12, 32), (3, 8, 12), (2, 36, 4)])
def test_loads_are_contiguous_after_it(function, shape):
    *batch, width, rows = shape
    order = (*range(len(batch)), len(batch) + 1, len(batch))
    turned = (*batch, rows, width)

    def net(x, y):
        x = ops.permute(x, *order)
        return x + y if function is added else ops.softmax(x) * y

    term = build(net, [NdArrayType(shape), NdArrayType(turned)])
    before = lowered_of(term)
    after = contract_arrays(transposed_copier(line=4, width=4, work=1)(before, VECTORS), VECTORS)
    assert max(strides_of_loads(before)) >= 4
    assert strides_of_loads(after) <= {0, 1}
    arrays = draw_arrays(tuple(term.source.table), (-1.0, 1.0))
    for found, wanted in zip(run(after, *arrays), evaluate(straight(term), *arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_one_copy_serves_several_loops():
    term = build(normalised, [NdArrayType((8, 8)), NdArrayType((8, 8))])
    after = contract_arrays(transposed_copier(line=4, width=4, work=1)(lowered_of(term), VECTORS), VECTORS)
    assert names_of_copies(after).count("x0") == 1


@pytest.mark.parametrize("shape", [(16, 64), (64, 64)])
def test_small_nests_and_short_rows_are_left_as_they_are(shape):
    width, rows = shape
    before = lowered_of(build(added, [NdArrayType((width, rows)), NdArrayType((rows, width))]))
    assert strides_of_loads(transposed_copier()(before, VECTORS)) == strides_of_loads(before)


def test_an_array_that_the_nest_overwrites_is_read_in_place():
    """A copy would have old values where new ones are read, or the other way round."""
    term = build(lambda x: (ops.transpose(x) + x,), [NdArrayType((8, 8))])
    before = lowered_of(term, in_place={0: 0})
    after = transposed_copier(line=4, width=4, work=1)(before, VECTORS)
    [array] = draw_arrays(tuple(term.source.table))
    np.testing.assert_array_equal(run(after, array)[0], array.T + array)


def test_rows_have_arrays_of_their_own():
    """Threads shared one, as it was declared before the loop over blocks, where two loops count its rows."""
    types = [NdArrayType((48, 3001)), NdArrayType((3001, 48))]
    lowered = lowered_of(build(normalised, types), MACHINE)
    plan, dialect = planned(lowered), get_backend("c").dialect
    texts = [
        KernelPrinter(Interface(kernel, plan), MACHINE, dialect, {}, companion, {}).print("kernel")
        for kernel in kernels(lowered.steps)
    ]
    assert not any(isinstance(line, LocalArray) for text in texts for line in text.lines)
    arrays = [line for text in texts for line in within(text.lines) if isinstance(line, LocalArray)]
    assert len({array.name for array in arrays}) >= 3


def within(lines):
    """Yield all lines, and those of loops."""
    for line in lines:
        yield line
        yield from within(getattr(line, "lines", ()))


@settings(suppress_health_check=list(HealthCheck))
@given(nests(), st.integers(0, 9), st.integers(1, 4))
def test_copies_preserve_random_kernels(lowered, seed, width):
    after = transposed_copier(line=2, width=width, work=1)(lowered, VECTORS)
    arrays = arrays_for(lowered, seed)
    for found, wanted in zip(run_in_order(after, arrays), run_in_order(lowered, arrays), strict=True):
        np.testing.assert_array_equal(found, wanted)
