"""What blocks cost in Scratch's own virtual machine, in nanoseconds of one processor; only ratios matter.

Each was timed alone, many times in a row. In TurboWarp all cost less, and about in proportion.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from catgrad.loops.ir.index import Index, Variable
from catgrad.loops.ir.nest import Accumulate, Item, Store, statements
from catgrad.loops.ir.scalar import Compute, IndexValue, Load, Masked, Number, Scalar, Space
from catgrad.types import Dtype

STACK, REPORTER, VARIABLE, SHARED = 112, 45, 56, 106
"""A block of a stack, one in a slot, a variable in a slot, one that all sprites share."""

TURN, CALL = 150, 434
"""A turn of a loop, a call of a custom block."""

REPEATED = {
    "Maximum": (0, 1), "Minimum": (0, 1), "Select": (0,), "Sign": (0,), "Round": (0,), "Fmod": (0,),
    "CastToWhole": (0,), "Power": (0, 1), "IsNan": (0,), "IsFinite": (0,), "FloorDivide": (1,),
    "Remainder": (1,), "Log1p": (0,), "Expm1": (0,), "ShiftLeft": (1,), "ShiftRight": (1,),
}  # fmt: skip
"""The operands that the spelling of an operation mentions more than once."""

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
"""How many blocks an operation is, where it is not one."""

_KNOWN: WeakKeyDictionary[Scalar, int] = WeakKeyDictionary()


def of_index(place: Index) -> int:
    """An index: nothing if it is a number, else variables and what is added to them."""
    variables = any(isinstance(atom, Variable) for atom, _ in place.terms)
    others = [atom for atom, _ in place.terms if not isinstance(atom, Variable)]
    parts = variables + len(others)
    if not parts:
        return 0
    within = sum(of(a.scalar) if hasattr(a, "scalar") else of_index(a.index) + REPORTER for a in others)
    return VARIABLE * variables + within + REPORTER * (parts - 1 + (place.constant != 0))


def of(scalar: Scalar) -> int:
    """An expression, written out in full."""
    if scalar not in _KNOWN:
        _KNOWN[scalar] = _of(scalar)
    return _KNOWN[scalar]


def _of(scalar: Scalar) -> int:
    if isinstance(scalar, Number):
        return 0
    if isinstance(scalar, Load):
        if not scalar.buffer.order:
            return SHARED if scalar.buffer.space is Space.ARGUMENT else VARIABLE
        return REPORTER + of_index(scalar.buffer.flat(scalar.indices))
    if isinstance(scalar, IndexValue):
        return of_index(scalar.index)
    if isinstance(scalar, Masked):
        return of(scalar.inside) + of(scalar.outside) + 4 * REPORTER * len(scalar.conditions)
    assert isinstance(scalar, Compute)  # the last kind there is
    return REPORTER * weight(scalar) + sum(
        of(operand) * times(scalar, n) for n, operand in enumerate(scalar.operands)
    )


def weight(scalar: Compute) -> int:
    """How many blocks the spelling of an operation is, about."""
    return WEIGHTS.get(scalar.op.macro, 1)


def times(scalar: Compute, position: int) -> int:
    """How often the spelling of an operation mentions an operand."""
    if scalar.op.macro == "Multiply" and wraps(scalar.dtype):
        return 2
    return 2 if position in REPEATED.get(scalar.op.macro, ()) else 1


def of_items(items: Sequence[Item]) -> int:
    """Estimate statements, each run once; one that adds to a register is an addition of its expression."""
    changes = (s for s in statements(items) if isinstance(s, (Store, Accumulate)))
    return sum(
        of(s.scalar) + REPORTER + (STACK if isinstance(s, Store) or s.buffer.order else 0) for s in changes
    )


def wraps(dtype: Dtype) -> bool:
    """Tell whether arithmetic wraps to the bits of a dtype: those of 64 have more than Scratch's numbers."""
    return dtype in (Dtype.int32, Dtype.uint32)


def is_variable(scalar: Scalar) -> bool:
    """Whether it is a number of its kernel, which is a variable already."""
    return isinstance(scalar, Load) and scalar.buffer.is_register
