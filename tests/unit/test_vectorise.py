"""Vectorisation: loops that compute functions of many instructions get the widest vectors."""

from __future__ import annotations

import pytest

from catgrad import Dim, NdArrayType
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Axis, Kernel, Loop, Store
from catgrad.loops.ir.scalar import Buffer, Compute, Load, Space
from catgrad.loops.machine import Machine
from catgrad.loops.passes.vectorise import vectorise
from catgrad.ops.arithmetic import Add, Divide
from catgrad.ops.transcendental import Exp, Sqrt, Tanh
from catgrad.terms.op import Op
from catgrad.types import Dtype

MACHINE = Machine((), lanes=16)
SCALE = Load(Buffer("scale", NdArrayType(()), Space.ARGUMENT), ())


def axis(extent, of) -> Axis:
    """Return the kind of a loop that stores a function of each element of an array."""
    i = Variable(extent, "i")
    x, y = (Buffer(name, NdArrayType((extent,)), space) for name, space in
            [("x", Space.ARGUMENT), ("y", Space.RESULT)])  # fmt: skip
    [loop] = vectorise(Kernel([Loop(i, [Store(y, (index(i),), of(Load(x, (index(i),))))])]), MACHINE).body
    return loop.axis


def apply(op: Op, *operands):
    return Compute(op, Dtype.float32, operands)


def exponential(x):
    return apply(Exp(), apply(Add(), x, SCALE))


@pytest.mark.parametrize(
    ("extent", "wanted"),
    [
        (3, Axis.SERIAL),
        (48, Axis.VECTOR),
        (64, Axis.WIDE),
        (150, Axis.VECTOR),
        (1030, Axis.WIDE),
        (Dim("batch"), Axis.VECTOR),
        (128 * Dim("batch"), Axis.WIDE),
    ],
)
def test_vectors_are_the_widest_where_most_iterations_fill_them(extent, wanted):
    assert axis(extent, exponential) is wanted


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        (lambda x: apply(Tanh(), x), Axis.WIDE),
        (lambda x: apply(Divide(), x, SCALE), Axis.VECTOR),
        (lambda x: apply(Divide(), apply(Sqrt(), x), SCALE), Axis.VECTOR),
        (lambda x: apply(Add(), x, apply(Exp(), SCALE)), Axis.VECTOR),
    ],
    ids=["a function", "a division", "a square root", "a function of no element"],
)
def test_vectors_are_the_widest_for_functions_of_many_instructions(of, wanted):
    assert axis(1024, of) is wanted
