"""One-hot sums: Σⱼ select(label = j, f(j), 0) is f(label), a single term instead of all."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad.loops.ir.index import Read, Variable, index
from catgrad.loops.ir.nest import Kernel, Reduce, Store, Substituted, nested, perfect_nest, size_hint
from catgrad.loops.ir.scalar import Bounds, Compute, IndexValue, Masked, Number, Scalar, converted, is_zero
from catgrad.loops.ir.steps import Lowered, Step
from catgrad.loops.machine import Machine
from catgrad.ops.arithmetic import Add
from catgrad.ops.compare import Equal, Select
from catgrad.types import Dtype

INDEX_DTYPES = (Dtype.int32, Dtype.int64)
"""Dtypes in which every index has a number of its own."""


def gather_one_hot_sums(lowered: Lowered, machine: Machine) -> Lowered:
    """Replace sums of which an integer selects one term by that term, or 0 if the integer is no index.

    Those whose terms are fewer than the lanes of a vector stay, as rows are summed side by side.
    """
    return lowered.map(lambda steps: [_gathered(step, machine.vectors.lanes) for step in steps])


def _gathered(step: Step, lanes: int) -> Step:
    match perfect_nest(step.body) if isinstance(step, Kernel) else None:
        case free, [Reduce(op=Add(), axes=(axis,)) as r] if size_hint(axis.extent) >= lanes and (
            term := _selected(r.scalar, axis)
        ):
            dtype = r.buffer.type.dtype
            store = Store(r.buffer, r.indices, converted(term, dtype))
            return Kernel(nested(free, [store]))
    return step


def _selected(scalar: Scalar, axis: Variable) -> Scalar | None:
    """Return the only term of a sum over an axis that may differ from 0."""
    match scalar:
        case Compute(op=Select(), operands=(Compute(op=Equal(), operands=sides), inside, Number() as zero)):
            label = _label(sides, axis)
            if label is not None and is_zero(zero):
                place = index(Read(label, axis.extent))
                conditions = (Bounds(place, axis.extent, True, True),)
                return Masked(conditions, Substituted({axis: place}).scalar(inside), zero)
    return None


def _label(sides: Sequence[Scalar], axis: Variable) -> Scalar | None:
    """Return what the number of an iteration over an axis is compared with."""
    pairs = (sides, sides[::-1])
    return next((a for a, b in pairs if _counts(b, axis) and axis not in a.variables), None)


def _counts(scalar: Scalar, axis: Variable) -> bool:
    """Tell whether a scalar is the number of an iteration over an axis."""
    is_index = isinstance(scalar, IndexValue) and scalar.dtype in INDEX_DTYPES
    return is_index and scalar.index.variable is axis  # type: ignore[attr-defined]
