"""Loop versioning in emitted C: an element is the same whatever the others are, and right if it is huge."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from catgrad import Dim, Functions, NdArrayType, build, ops
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Let, Loop, Store
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, Load, Masked, Space
from catgrad.loops.printing.versions import near
from catgrad.ops.transcendental import Cos, Sin
from catgrad.types import Dtype
from tests.targets import emit
from tests.unit.c.build import NEEDS_C

ROW = NdArrayType((64,))
FAR = [7e4, -1.3e8, 3.4e38, np.inf, np.nan]


def waves(x):
    """A row for each kind of loop: of elements, with a register, and of a sum."""
    doubled = ops.sin(x * 2.0) + ops.cos(x)
    return doubled, ops.sum(ops.cos(x), 1)


@pytest.fixture(scope="module")
def program():
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    term = build(waves, [NdArrayType((Dim("n"), 64))])
    return emit(Functions({"waves": term}, "waves"), "c").load()


@NEEDS_C
@pytest.mark.parametrize("far", FAR)
def test_an_element_does_not_depend_on_how_far_others_are(program, far):
    x = np.random.default_rng(0).uniform(-100, 100, (3, 64)).astype(np.float32)
    before, sums = program.waves(x)
    x[1, 5] = far
    after, far_sums = program.waves(x)
    others = np.ones_like(x, bool)
    others[1, 5] = False
    np.testing.assert_array_equal(after[others], before[others])
    np.testing.assert_array_equal(far_sums[[0, 2]], sums[[0, 2]])
    with np.errstate(invalid="ignore", over="ignore"):
        doubled = np.float32(2) * x[1]
        exact = np.sin(doubled.astype(float)) + np.cos(x[1].astype(float))
    np.testing.assert_allclose(after[1], exact, rtol=1e-6, atol=3e-7)


@NEEDS_C
@pytest.mark.parametrize("far", [0.5, 1e8])
def test_sines_of_padded_and_of_joined_arrays(far):
    def joined(x, z):
        return ops.pad(ops.sin(x), [(2, 2)]) * z + ops.concat([ops.sin(x), ops.cos(ops.slice(x, (0,), (4,)))])

    term = build(joined, [NdArrayType((60,)), ROW])
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=60).astype(np.float32), rng.normal(size=64).astype(np.float32)
    x[30] = far
    [found] = emit(Functions({"joined": term}, "joined"), "c").load().joined(x, z)
    exact = x.astype(float)
    expected = np.pad(np.sin(exact), 2) * z + np.concatenate([np.sin(exact), np.cos(exact[:4])])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


X, Y = Buffer("x", ROW), Buffer("y", ROW)
ONE = Buffer("x_value", NdArrayType(()), Space.REGISTER)
I = Variable(64)


def loop(*body, axis=Axis.VECTOR, variable=I):
    """A loop with these statements."""
    return Loop(variable, [*body], axis=axis)


def sine(of):
    """The sine of a scalar."""
    return Compute(Sin(), Dtype.float32, (of,))


def test_a_check_computes_the_registers_that_arguments_need():
    other = Buffer("other", NdArrayType(()), Space.REGISTER)
    let, idle = Let(ONE, (), Load(X, (index(I),))), Let(other, (), Load(Y, (index(I),)))
    version = near(loop(let, idle, Store(Y, (index(I),), sine(Load(ONE, ())))), (Sin, Cos))
    assert version.lets == (let,)
    assert [argument.buffer for argument in version.arguments] == [ONE]
    assert version.loop.body[-1].scalar.op.macro == "NearSin"


def test_a_check_reads_elements_of_which_some_do_not_exist_under_their_conditions():
    conditions = (Bounds(index(I) + (-2), 60, True, True),)
    inside, outside = Load(X, (index(I) + (-2),)), Load(Y, (index(I),))
    masked = Masked(conditions, sine(inside), sine(outside))
    version = near(loop(Store(Y, (index(I),), masked)), (Sin,))
    first, second = version.arguments
    assert (first.conditions, first.inside) == (conditions, inside)
    assert (second.conditions, second.outside) == (conditions, outside)
    assert version.loop.body[-1].scalar.conditions == conditions


def test_an_argument_that_the_loop_has_written_has_no_version():
    first = Store(X, (index(I),), Load(Y, (index(I),)))
    last = Store(Y, (index(I),), sine(Load(X, (index(I),))))
    assert near(loop(first, last), (Sin,)) is None
    assert near(loop(last), (Sin,)) is not None
    assert near(loop(last), (Cos,)) is None
    assert near(loop(Store(X, (index(I),), sine(Load(X, (index(I),))))), (Sin,)) is not None
