"""Cost model: nanoseconds of blocks in Scratch's own virtual machine on one processor; only ratios matter.

Each was timed alone, many times in a row. In TurboWarp all cost less, and about in proportion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar
from weakref import WeakKeyDictionary

from catgrad.dims import Size
from catgrad.loops.ir.index import Index, Modulo, Quotient, Read, Variable
from catgrad.loops.ir.nest import Accumulate, Item, Store, statements
from catgrad.loops.ir.scalar import Compute, IndexValue, Load, Masked, Number, Scalar, Space
from catgrad.loops.passes.simplify.bind import IsBound
from catgrad.ops.arithmetic import Add
from catgrad.ops.bits import BitAnd
from catgrad.ops.random import RandomBits
from catgrad.types import Dtype

from .spelling import counts

STACK_NS, REPORTER_NS, VARIABLE_NS, SHARED_VARIABLE_NS = 112, 45, 56, 106
"""Nanoseconds of a stack block, a reporter, a variable, and a variable that all sprites share."""

ITERATION_NS, CALL_NS = 150, 434
"""Nanoseconds of an iteration of a loop, and of a call of a custom block."""

WEIGHTS = {
    "Power": 8,
    "Select": 4,
    "Maximum": 6,
    "Minimum": 6,
    "Exp": 2,
    "Log": 2,
    "RandomBits": 500,
    "BitAnd": 100,
}
"""Time of an operation, in reporters, where it is not about that of one.

It is not the number of its reporters, which `spelling.BLOCKS` has for the length of scripts: a logarithm is
one reporter, and takes the time of two.
"""

_KNOWN: WeakKeyDictionary[Scalar, int] = WeakKeyDictionary()


def of_index(place: Index) -> int:
    """Estimate an index: 0 for a constant, else its variables and the additions to them."""
    variables = any(isinstance(atom, Variable) for atom, _ in place.terms)
    others = [atom for atom, _ in place.terms if isinstance(atom, (Quotient, Modulo, Read))]
    parts = variables + len(others)
    if not parts:
        return 0
    within = sum(of(a.scalar) if hasattr(a, "scalar") else of_index(a.index) + REPORTER_NS for a in others)
    return VARIABLE_NS * variables + within + REPORTER_NS * (parts - 1 + (place.constant != 0))


def of(scalar: Scalar) -> int:
    """Estimate an expression, computed in full."""
    if scalar not in _KNOWN:
        _KNOWN[scalar] = _of(scalar)
    return _KNOWN[scalar]


def _of(scalar: Scalar) -> int:
    if isinstance(scalar, Number):
        return 0
    if isinstance(scalar, Load):
        if not scalar.buffer.order:
            return SHARED_VARIABLE_NS if scalar.buffer.space is Space.ARGUMENT else VARIABLE_NS
        return REPORTER_NS + of_index(scalar.buffer.flat(scalar.indices))
    if isinstance(scalar, IndexValue):
        return of_index(scalar.index)
    if isinstance(scalar, Masked):
        return of(scalar.inside) + of(scalar.outside) + 4 * REPORTER_NS * len(scalar.conditions)
    assert isinstance(scalar, Compute)  # the last kind there is
    return REPORTER_NS * weight(scalar) + sum(
        of(operand) * times(scalar, n) for n, operand in enumerate(scalar.operands)
    )


def weight(scalar: Compute) -> int:
    """Estimate an operation without its operands, in reporters."""
    return WEIGHTS.get(scalar.op.macro, 1)


def times(scalar: Compute, position: int) -> int:
    """Estimate how often an operand is computed: about twice, if it is mentioned several times."""
    mentions = counts(scalar.op.macro, scalar.dtype)[1:]
    return 2 if position < len(mentions) and mentions[position] > 1 else 1


def of_items(items: Sequence[Item]) -> int:
    """Estimate statements, each run once."""
    return sum(of(s.scalar) + _own(s) for s in statements(items) if isinstance(s, (Store, Accumulate)))


def _own(s: Store | Accumulate) -> int:
    """Estimate a statement without its expression."""
    return REPORTER_NS + (STACK_NS if isinstance(s, Store) or s.buffer.order else 0)


def is_variable(scalar: Scalar) -> bool:
    """Tell whether it is a register of its kernel, which is a variable already."""
    return isinstance(scalar, Load) and scalar.buffer.is_register


class ScriptCosts:
    """Costs of variables: a scalar gets one if the time that it saves is more than that of setting it."""

    outlive_loops: ClassVar[bool] = False

    def hoists(self, scalar: Scalar, iterations: Size) -> bool:
        """Compare the iterations of a loop with one evaluation before it."""
        if isinstance(scalar, (Number, IndexValue)) or scalar.dtype is Dtype.bool or is_variable(scalar):
            return False
        return int(iterations) * (of(scalar) - VARIABLE_NS) > of(scalar) + STACK_NS

    def shares(self, scalar: Scalar, uses: int, is_bound: IsBound) -> bool:
        """Compare the uses of a scalar with one evaluation."""
        price = _with_variables(scalar, is_bound)
        pays = uses * (price - VARIABLE_NS) > price + STACK_NS
        return pays and scalar.dtype is not Dtype.bool and not isinstance(scalar, Number)

    def forwards(self, store: Store, loads: int) -> bool:
        """Compare the loads of an element with the setting of a variable."""
        if not store.buffer.order or isinstance(store.scalar, Number):
            return False
        price = REPORTER_NS + of_index(store.buffer.flat(store.indices))
        return loads * (price - VARIABLE_NS) > STACK_NS

    def accumulates(self, s: Accumulate, is_bound: IsBound) -> bool:
        """Bind the operand of an extremum, which is printed twice, if it costs more than a variable."""
        return not isinstance(s.op, Add) and _with_variables(s.scalar, is_bound) > VARIABLE_NS

    def mentions(self, scalar: Scalar) -> Sequence[tuple[Scalar, int]]:
        """List the operands, all of which are computed, some more than once."""
        if not isinstance(scalar, Compute):
            return [(operand, 1) for operand in scalar.operands]
        return [(operand, times(scalar, n)) for n, operand in enumerate(scalar.operands)]

    def first(self, scalar: Scalar, is_bound: IsBound) -> Sequence[Scalar]:
        """List operations that custom blocks compute, whose results are variables."""
        return [scalar] if is_called(scalar) and not is_bound(scalar) else []


def is_called(scalar: Scalar) -> bool:
    """Tell whether a custom block computes it: random numbers and operations on bits."""
    return isinstance(scalar, Compute) and isinstance(scalar.op, (RandomBits, BitAnd))


def _with_variables(scalar: Scalar, is_bound: IsBound) -> int:
    """Estimate an expression, some parts of which are in variables."""
    if not isinstance(scalar, Compute):
        return of(scalar)
    parts = (
        times(scalar, n) * (VARIABLE_NS if is_bound(o) else _with_variables(o, is_bound))
        for n, o in enumerate(scalar.operands)
    )
    return REPORTER_NS * weight(scalar) + sum(parts)
