"""Iterations of a loop that is called parallel, or may be vectorised, do not depend on each other."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catgrad import Dtype, NdArrayType
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.dependence import are_apart, exchanged, first_writes, is_parallel, vector_sums
from catgrad.loops.ir.index import ZERO, Read, Variable, index, modulo
from catgrad.loops.ir.nest import Barrier, Let, Loop, MatMul, Store
from catgrad.loops.ir.scalar import Bounds, Buffer, Load, Space
from catgrad.loops.ir.steps import kernels
from tests.nests import InOrder, arrays_for, nests


class AnyOrder(InOrder):
    """A machine that runs independent iterations in a random order."""

    def __init__(self, lowered, arrays) -> None:
        super().__init__(lowered, arrays)
        self.shuffle = Random(0).shuffle
        self.first = first_writes([item for kernel in kernels(lowered.steps) for item in kernel.body])

    def loop(self, loop):
        numbers = list(range(loop.variable.extent))
        if is_parallel(loop) or vector_sums(loop, self.first) is not None:
            self.shuffle(numbers)
        for number in numbers:
            self.values[loop.variable] = number
            self.items(loop.body)


@settings(suppress_health_check=list(HealthCheck), max_examples=100)
@given(nests(), st.integers(0, 9))
def test_the_order_of_independent_iterations_does_not_matter(lowered, seed):
    arrays = arrays_for(lowered, seed)
    found, wanted = (machine(lowered, arrays).results(lowered) for machine in (AnyOrder, InOrder))
    for x, y in zip(found, wanted, strict=True):
        assert x.tolist() == y.tolist()


i, j, k, n = (Variable(size, name) for size, name in ((8, "i"), (4, "j"), (4, "k"), (4, "n")))
I, J, K, N = map(index, (i, j, k, n))
x, y = (Buffer(name, NdArrayType((64,), Dtype.int64), Space.ARGUMENT) for name in "xy")
new_x = Buffer("new_x", x.type, Space.RESULT, alias=x)
register = Buffer("r", NdArrayType((), Dtype.int64), Space.REGISTER)
PLACE = index(Read(Load(register, ()), 8))


def at(buffer, place):
    return Load(buffer, (place,))


def product(place):
    return MatMul(x, (place,), at(y, K), at(y, K + N), (j,), (n,), (k,))


INDEPENDENT = {
    "each its own element": [Store(x, (I,), at(x, I))],
    "the elements between": [Store(x, (I * 2,), at(x, I * 2 + 1))],
    "one offset that is read": [Store(x, (I + PLACE,), at(y, I))],
    "rows of a product": [product(I * 4 + J)],
}
DEPENDENT = {
    "the next element": [Store(x, (I,), at(x, I + 1))],
    "the element before": [Store(x, (I + 1,), at(x, I))],
    "what shares its memory": [Store(new_x, (I,), at(x, I + 1))],
    "a register between": [Let(register, (), at(x, I + 1)), Store(x, (I,), Load(register, ()))],
    "an offset of each iteration": [Let(register, (), at(y, I)), Store(x, (I + PLACE,), at(y, I))],
    "rows that overlap": [product(I + J)],
}


@pytest.mark.parametrize("case", [*INDEPENDENT, *DEPENDENT])
def test_independence_is_proved_exactly_where_it_holds(case):
    body = {**INDEPENDENT, **DEPENDENT}[case]
    loop = Loop(i, body)
    lanes = vector_sums(loop, first_writes([loop])) is not None
    assert is_parallel(loop) == (case in INDEPENDENT)
    assert lanes == (case in INDEPENDENT and not isinstance(body[0], MatMul))


m, z = Variable(2, "m"), Buffer("z", x.type, Space.RESULT)
FILL, READ = Loop(i, [Store(x, (I,), at(y, I))], axis=Axis.THREAD), Loop(k, [Store(z, (K,), at(x, K))])
WITHIN = Bounds(index(Read(at(x, index(0)), 8)), 4, True, True)
EXCHANGED = {
    "written before a barrier": ([FILL, Barrier(), READ], {x}),
    "written behind a barrier": ([READ, Barrier(), FILL], {x}),
    "written by one overwriting it": ([Store(new_x, (I,), at(y, I)), Barrier(), READ], {x}),
    "on one side only": ([FILL, Barrier(), Store(y, (I,), Load(register, ()))], {y}),
    "in the next iteration": ([Loop(m, [READ, FILL, Barrier()])], {x, z}),
    "in the condition of a loop": ([FILL, Barrier(), Loop(m, [Barrier()], conditions=(WITHIN,))], {x}),
    "by another team": ([Loop(m, [FILL, Barrier()], axis=Axis.BLOCK)], set()),
    "by one thread": ([FILL, READ], set()),
}


@pytest.mark.parametrize("name", EXCHANGED)
def test_threads_exchange_what_they_access_on_both_sides_of_a_barrier(name):
    items, wanted = EXCHANGED[name]
    assert exchanged(items) == wanted


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("constants", [(0, 1), (1, 0), (0, 2), (1, 3)])
def test_accesses_that_differ_modulo_their_steps_never_meet(stride, constants):
    """Even if a tile is of several rows, or its variable moves in steps."""
    size, near, tile = 8 * stride + 3, Variable(4), Variable(16, "tile", 8)
    digit = modulo(index(tile) + index(Variable(2)) * 4, 8) + index(near)
    array = Buffer("x", NdArrayType((5, size)))
    one, other = ((index(Variable(5)), digit * stride + c) for c in constants)
    wanted = (constants[0] - constants[1]) % stride != 0
    assert are_apart(array, one, other) == wanted
    assert not are_apart(array, one, (one[0], index(Variable(size))))


def test_an_index_that_runs_on_beyond_its_axis_proves_nothing_of_those_around_it():
    array = Buffer("x", NdArrayType((4, 6)))
    odd, even, column = index(Variable(2)) * 2 + 1, index(Variable(2)) * 2, Variable(6)
    assert are_apart(array, (odd, index(column)), (even, index(column)))
    assert are_apart(array, (index(Variable(9)), odd), (index(Variable(4)), even))
    assert not are_apart(array, (odd, index(column)), (ZERO, index(Variable(24))))
    assert not are_apart(array, (index(Variable(4)), odd), (ZERO, index(Variable(12)) * 2))
