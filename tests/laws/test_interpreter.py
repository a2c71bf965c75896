"""The reference interpreter finds iterations of parallel loops that touch what another writes."""

from __future__ import annotations

import pytest

from catgrad import Dtype, NdArrayType
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import ZERO, Variable, index
from catgrad.loops.ir.nest import Loop, Store
from catgrad.loops.ir.scalar import Buffer, Load, Space, number
from catgrad.loops.reference import Interpreter

I, J = Variable(4, "i"), Variable(4, "j")
X = Buffer("x", NdArrayType((4,)))
ONE = number(1, Dtype.float32)
LOCAL = Buffer("local", NdArrayType((4,)), Space.LOCAL, order=())
"""An array of a kernel that stores all its elements at one place."""


def interpret(*items):
    Interpreter({}).items([Loop(I, [*items], axis=Axis.GRID)])


def test_elements_of_an_iterations_own_may_be_written_and_read():
    interpret(Store(X, (index(I),), ONE), Store(X, (index(I),), Load(X, (index(I),))))


@pytest.mark.parametrize("item", [Store(X, (ZERO,), ONE), Loop(J, [Store(X, (index(J),), ONE)])])
def test_an_element_that_two_iterations_write_is_an_error(item):
    with pytest.raises(AssertionError, match=r"'x'.* [0-3]\) is written by two iterations"):
        interpret(item)


def test_an_element_that_another_iteration_reads_is_an_error():
    with pytest.raises(AssertionError, match="is written by one iteration and read by another"):
        interpret(Store(X, (index(I),), Load(X, (index(I) * -1 + 3,))))


def test_arrays_of_kernels_are_private_to_iterations():
    """Within an iteration of the grid, others of its elements are other arrays."""
    interpret(Store(LOCAL, (ZERO,), ONE))
    interpret(Loop(J, [Store(LOCAL, (index(J),), ONE)], axis=Axis.PARALLEL))
    with pytest.raises(AssertionError, match=r"'local'.* 0\) is written by two iterations"):
        interpret(Loop(J, [Store(LOCAL, (ZERO,), ONE)], axis=Axis.THREAD))
