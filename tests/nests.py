"""Random kernels: loop nests over registers and arrays, two of which are aliases.

As after lowering, a register is stored before it is read, and only arrays and `Accumulate` carry values
between iterations. Numbers are integers, so sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from catgrad import Dtype, NdArrayType
from catgrad.loops.ir.index import Index, Read, Variable, index, modulo
from catgrad.loops.ir.nest import Accumulate, Item, Kernel, Loop, Statement, Store
from catgrad.loops.ir.scalar import Bounds, Buffer, Compute, IndexValue, Load, Masked, Number, Scalar, Space
from catgrad.loops.ir.steps import Lowered
from catgrad.loops.reference import Interpreter
from catgrad.ops.arithmetic import Add, Maximum, Multiply, Subtract
from catgrad.programs.program import Function
from catgrad.terms.structural import Constant
from catgrad.types import Array

SIZE = 32
"""Elements of each array: more than any index that is drawn."""

Registers = frozenset[Buffer]


class Nests:
    """A kernel under construction, drawn item by item."""

    def __init__(self, draw: DrawFn, dtype: Dtype) -> None:
        self.draw, self.dtype = draw, dtype
        self.arguments = [Buffer(name, NdArrayType((SIZE,), dtype), Space.ARGUMENT) for name in "xyz"]
        self.places = Buffer("places", NdArrayType((SIZE,), Dtype.int64), Space.ARGUMENT)
        aliases = {"u": None, "v": self.arguments[2]}
        self.results = [
            Buffer(name, NdArrayType((SIZE,), dtype), Space.RESULT, alias=alias)
            for name, alias in aliases.items()
        ]
        self.registers = [Buffer(name, NdArrayType((), dtype), Space.REGISTER) for name in "abc"]

    def lowered(self) -> Lowered:
        """Return the kernel as a function."""
        body = self.block((), frozenset())
        function = Function("f", (), (), (), (), (), ())
        return Lowered(function, [Kernel(body)], [*self.arguments, self.places], self.results)

    def block(self, around: tuple[Variable, ...], known: Registers) -> list[Item]:
        """Draw items inside loops over these variables, after stores to these registers."""
        items: list[Item] = []
        for _ in range(self.draw(st.integers(1, 5))):
            kinds = ["store", "register", "add"] + ["loop", "sum", "sum"] * (len(around) < 2)
            kind = self.draw(st.sampled_from(kinds))
            if kind == "loop":
                variable = Variable(self.draw(st.integers(2, 5)))
                items.append(Loop(variable, self.block((*around, variable), known)))
            elif kind == "sum":
                items.append(self.sum_of_each(around, known))
            elif kind == "register":
                register = self.draw(st.sampled_from(self.registers))
                items.append(Store(register, (), self.scalar(around, known)))
                known |= {register}
            else:
                items.append(self.statement(kind, around, known))
        return items

    def sum_of_each(self, around: tuple[Variable, ...], known: Registers) -> Loop:
        """Draw a loop around a sum, with its initialisation and a read of the result."""
        i, k = Variable(self.draw(st.integers(2, 5))), Variable(self.draw(st.integers(2, 5)))
        register = self.draw(st.sampled_from(self.registers))
        known |= {register}
        terms = [self.added(register, (*around, i, k), known) for _ in range(self.draw(st.integers(1, 2)))]
        more = [self.added(register, (*around, i), known) for _ in range(self.draw(st.integers(0, 2)))]
        after = [self.statement("store", (*around, i), known) for _ in range(self.draw(st.integers(1, 2)))]
        first = Store(register, (), self.number(self.draw(st.sampled_from([0, 0, 0, 2]))))
        return Loop(i, [first, Loop(k, terms), *more, *after])

    def added(self, register: Buffer, around: Sequence[Variable], known: Registers) -> Accumulate:
        """Draw an addition to a register, which seldom reads the register itself, or written arrays."""
        if self.draw(st.integers(0, 3)):
            return Accumulate(register, (), Add(), self.product(around))
        return Accumulate(register, (), Add(), self.scalar(around, known))

    def product(self, around: Sequence[Variable]) -> Scalar:
        """Draw a product of two elements of read-only arrays."""
        loads = [Load(array, (self.index(around),)) for array in self.arguments[:2]]
        return Compute(Multiply(), self.dtype, tuple(loads))

    def statement(self, kind: str, around: Sequence[Variable], known: Registers) -> Statement:
        """Draw a statement that writes to an array, or adds to a stored register."""
        scalar = self.scalar(around, known)
        if kind == "store":
            return Store(self.draw(st.sampled_from(self.results)), (self.index(around),), scalar)
        op = self.draw(st.sampled_from([Add(), Add(), Maximum()]))
        buffer = self.draw(st.sampled_from([*self.results, *sorted(known, key=lambda b: b.name)]))
        return Accumulate(buffer, (self.index(around),) if buffer.order else (), op, scalar)

    def index(self, around: Sequence[Variable]) -> Index:
        """Draw an index of at most 26, from few forms, so that many coincide."""
        total = Index((), self.draw(st.integers(0, 2)))
        for variable in around:
            total += index(variable) * self.draw(st.integers(0, 2))
        if self.draw(st.integers(0, 7)) == 7:
            total = modulo(total, 3)
        if self.draw(st.integers(0, 7)) == 7:
            total = index(Read(Load(self.places, (total,)), 3))
        return total

    def scalar(self, around: Sequence[Variable], known: Registers, depth: int = 2) -> Scalar:
        """Draw an expression."""
        kinds = ["load"] * 3 + ["register"] * 3 * bool(known) + ["compute", "compute", "masked"] * bool(depth)
        kind = self.draw(st.sampled_from([*kinds, "number", "index"]))
        if kind == "register":
            return Load(self.draw(st.sampled_from(sorted(known, key=lambda b: b.name))), ())
        if kind == "load":
            return Load(self.draw(st.sampled_from([*self.arguments, *self.results])), (self.index(around),))
        if kind == "number":
            return self.number(self.draw(st.integers(-2, 2)))
        if kind == "index":
            return IndexValue(self.index(around), self.dtype)
        operands = self.scalar(around, known, depth - 1), self.scalar(around, known, depth - 1)
        if kind == "masked":
            bounds = Bounds(self.index(around) - self.draw(st.integers(0, 4)), 3, True, True)
            return Masked((bounds,), *operands)
        return Compute(self.draw(st.sampled_from([Add(), Multiply(), Subtract()])), self.dtype, operands)

    def number(self, value: int) -> Number:
        """Draw a number."""
        return Number(Constant(NdArrayType((), self.dtype), value))


@st.composite
def nests(draw: DrawFn, dtype: Dtype = Dtype.int64) -> Lowered:
    """Draw a kernel, on int64, where arithmetic wraps, or on integers of another dtype."""
    return Nests(draw, dtype).lowered()


class InOrder(Interpreter):
    """A machine for kernels whose iterations may depend on each other, which lowering never makes."""

    def __init__(self, lowered: Lowered, arrays: Sequence[Array]) -> None:
        super().__init__({})
        for argument, array in zip(lowered.arguments, arrays, strict=True):
            self.memory[argument] = np.array(array, argument.type.dtype.numpy).reshape(-1)

    def loop(self, loop: Loop) -> None:
        """Run the iterations one after the other."""
        for number in range(loop.variable.extent):
            self.values[loop.variable] = number
            self.items(loop.body)

    def results(self, lowered: Lowered) -> list[Array]:
        """Run a function, and return its results."""
        with np.errstate(all="ignore"):
            self.steps(lowered.steps)
        return [self.memory_of(result).copy() for result in lowered.results]


def run_in_order(lowered: Lowered, arrays: Sequence[Array]) -> list[Array]:
    """The results of a kernel whose iterations run one after the other."""
    return InOrder(lowered, arrays).results(lowered)


def arrays_for(lowered: Lowered, seed: int) -> list[Array]:
    """Small whole numbers; those that are indices are not negative."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0 if a.name == "places" else -2, 3, SIZE) for a in lowered.arguments]
