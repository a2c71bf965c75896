"""Vectorisation: loops that compute functions of many instructions get the widest vectors."""

from __future__ import annotations

import re

import pytest

from catgrad import Dim, Functions, NdArrayType, build, ops
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import Accumulate, Kernel, Loop, Store
from catgrad.loops.ir.scalar import Buffer, Compute, Load, Space, number
from catgrad.loops.machine import Machine, Vectors
from catgrad.loops.passes.vectors.vectorise import vectorise
from catgrad.ops.arithmetic import Add, Divide
from catgrad.ops.transcendental import Exp, Sqrt, Tanh
from catgrad.terms.op import Op
from catgrad.types import Dtype
from tests.targets import emit

MACHINE = Machine((), vectors=Vectors(lanes=16))
SCALE = Load(Buffer("scale", NdArrayType(()), Space.ARGUMENT), ())


def axis(extent, of, source=Dtype.float32, result=Dtype.float32) -> Axis:
    """Return the kind of a loop that stores a function of each element of an array."""
    i = Variable(extent, "i")
    x = Buffer("x", NdArrayType((extent,), source), Space.ARGUMENT)
    y = Buffer("y", NdArrayType((extent,), result), Space.RESULT)
    return marked(Loop(i, [Store(y, (index(i),), of(Load(x, (index(i),))))]))


def axis_of_sum(extent, of) -> Axis:
    """Return the kind of a loop that adds up a function of the elements."""
    i, register = Variable(extent, "i"), Buffer("r", NdArrayType(()), Space.REGISTER)
    x = Buffer("x", NdArrayType((extent,)), Space.ARGUMENT)
    loop = Loop(i, [Accumulate(register, (), Add(), of(Load(x, (index(i),))))])
    return marked(Store(register, (), SCALE), loop)


def axis_of_columns(read, written, of) -> Axis:
    """Return the kind of a loop along a column of matrices with so many columns."""
    i = Variable(64, "i")
    x = Buffer("x", NdArrayType((64, read)), Space.ARGUMENT)
    y = Buffer("y", NdArrayType((64, written)), Space.RESULT)
    return marked(Loop(i, [Store(y, (index(i), Index()), of(Load(x, (index(i), Index()))))]))


def marked(*items) -> Axis:
    return vectorise(Kernel([*items]), MACHINE).body[-1].axis


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


@pytest.mark.parametrize("extent", [64, 512])
def test_short_sums_have_the_vectors_that_compilers_prefer(extent):
    assert axis(extent, exponential) is Axis.WIDE
    assert axis_of_sum(extent, exponential) is Axis.VECTOR
    assert axis_of_sum(16 * extent, exponential) is Axis.WIDE


@pytest.mark.parametrize("narrow", [Dtype.bool, Dtype.float16, Dtype.bfloat16])
def test_narrow_elements_would_make_the_widest_vectors_short(narrow):
    assert axis(1024, exponential, result=narrow) is Axis.VECTOR
    assert axis(1024, exponential, source=narrow) is Axis.VECTOR
    assert axis(1024, exponential, source=Dtype.int64) is Axis.WIDE


@pytest.mark.parametrize(("read", "written"), [(1, 1), (1, 4), (4, 1), (4, 4), (Dim("n"), 4)])
def test_copies_of_scattered_elements_to_scattered_places_have_no_vectors(read, written):
    copy = axis_of_columns(read, written, lambda x: x)
    assert copy is (Axis.VECTOR if 1 in (read, written) else Axis.SERIAL)
    assert axis_of_columns(read, written, lambda x: apply(Add(), x, SCALE)) is Axis.VECTOR
    zeros = axis_of_columns(read, written, lambda x: number(0, Dtype.float32))
    assert zeros is (Axis.VECTOR if written == 1 else Axis.SERIAL)


def test_functions_of_float64_are_calls():
    def of(x):
        return Compute(Exp(), Dtype.float64, (x,))

    assert axis(1024, of, Dtype.float64, Dtype.float64) is Axis.VECTOR


def test_emitted_loops_ask_for_the_widest_vectors():
    def clauses(function) -> list[str]:
        functions = Functions({"f": build(function, [NdArrayType((2048,))])}, "widest")
        source = emit(functions, "c").files["widest.c"]
        return re.findall(r"#pragma omp simd(.*)\n *for", source)

    assert clauses(lambda x: x + 1.0) == [""]
    assert clauses(lambda x: ops.sum(ops.exp(x))) == [" WIDEST reduction(+ : y_hat_sum)"]
    assert clauses(ops.sin) == [" reduction(max : farthest)", " WIDEST", " WIDEST"]
