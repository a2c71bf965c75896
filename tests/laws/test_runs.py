"""Runs of columns, and vector accesses: what is computed from registers is what arrays would hold."""

from __future__ import annotations

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.functors import Expand
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Loop, Store, loops, statements
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Masked, Space, number
from catgrad.loops.ir.steps import kernels
from catgrad.loops.passes.gpu.grids.moves import with_moves
from catgrad.ops.arithmetic import Add
from catgrad.programs.program import lower
from tests.gpu import MACHINES, limits, run_in_teams
from tests.kernels import has, prepared

N = Dim("n")
F32 = Dtype.float32


def rectified(x, w, b):
    """Return a product of 16 bits with a bias, rectified."""
    y = ops.cast(x @ w, F32)
    return ops.relu(y + ops.broadcast(b, y.shape))


@pytest.mark.parametrize("columns", [64, 100])
def test_an_epilogue_in_runs_is_that_of_its_product(columns):
    shapes = [((N, 24), Dtype.bfloat16), ((24, columns), Dtype.bfloat16), ((columns,), F32)]
    types = [NdArrayType(*each) for each in shapes]
    with limits("default"):
        term = prepared(lower(Expand(has)(build(rectified, types))))
        lowered = compile_kernels(term, MACHINES["default"])
    axes = [loop.axis for kernel in kernels(lowered.steps) for loop in loops(kernel.body)]
    assert axes.count(Axis.LANES) == 1 and axes.count(Axis.MOVE) == 2
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-2, 3, t.substitute({"n": 37}).shape).astype(t.dtype.numpy) for t in types]
    x, w, b = (each.astype(np.float64) for each in arrays)
    [found] = run_in_teams(lowered, *arrays)
    np.testing.assert_array_equal(found, np.maximum(x @ w + b, 0))


NEAR, ROW = Variable(4, "near"), Variable(8, "row")
X, Y, Z = (Buffer(name, NdArrayType((8, 8)), Space.ARGUMENT) for name in "xyz")
ODD = Buffer("odd", NdArrayType((8, 7)), Space.ARGUMENT)
HERE = index(ROW), index(NEAR)


def plus_one(scalar):
    return Compute(Add(), F32, (scalar, number(1, F32)))


def moves(*stores):
    """Return what is loaded, computed and stored."""
    items = with_moves(NEAR, stores)
    moved = [*statements([item for item in items if item.axis is Axis.MOVE])]
    loaded = [s.scalar.buffer for s in moved if s.buffer.space is Space.LOCAL]
    stored = [s.buffer for s in moved if s.buffer.space is not Space.LOCAL]
    [computed] = [item for item in items if item.axis is Axis.UNROLLED]
    assert isinstance(computed, Loop)
    return loaded, computed.statements, stored


def test_an_element_is_loaded_before_it_is_stored_and_not_after():
    y, z = Store(X, HERE, plus_one(Load(X, HERE))), Store(Z, HERE, plus_one(Load(X, HERE)))
    loaded, [first, second], stored = moves(y, z)
    assert loaded == [X] and stored == [X, Z]
    assert second.scalar.operands[0] is first.scalar


def test_elements_that_lie_apart_or_are_not_always_read_are_accessed_one_by_one():
    masked = Masked((Bounds(index(NEAR), 3, False, True),), Load(Y, HERE), number(0, F32))
    loaded, [s], stored = moves(Store(ODD, HERE, Compute(Add(), F32, (masked, Load(X, HERE[::-1])))))
    assert (loaded, stored) == ([], []) and s.buffer is ODD
    assert {load.buffer for load in s.scalar.loads()} == {X, Y}


def test_arrays_that_are_accessed_at_two_places_are_not_moved():
    other = index(ROW), index(NEAR) + 4
    loaded, [s], stored = moves(Store(X, HERE, plus_one(Load(X, other))))
    assert (loaded, stored) == ([], []) and s.buffer is X


def test_rounded_runs_are_stored_as_they_are():
    short = NdArrayType((8, 8), Dtype.bfloat16)
    result, runs = Buffer("y", short, Space.ARGUMENT), Buffer("runs", short, Space.LOCAL)
    computed, stored = with_moves(NEAR, [Store(result, HERE, Load(runs, HERE))])
    [first], [last] = computed.statements, stored.statements
    assert first.buffer.type.dtype is Dtype.bfloat16 and first.scalar.buffer is runs
    assert isinstance(last.scalar, Load) and last.scalar.buffer is first.buffer
