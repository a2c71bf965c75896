"""Narrowing: a temporary of int64 whose every element is a converted int32 is stored as int32.

Places of maxima then take half the memory, and as many lanes of a vector as elements of float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from catgrad.loops.ir.index import Index, Variable
from catgrad.loops.ir.nest import Item, Kernel, Loop, Replaced, Store, rewritten, statements
from catgrad.loops.ir.scalar import Buffer, Compute, IndexValue, Load, Scalar, Space, cast
from catgrad.loops.ir.steps import Lowered, Step, conditions, every_step, kernels
from catgrad.loops.machine import Machine
from catgrad.ops.cast import Cast
from catgrad.ops.compare import Equal
from catgrad.types import Dtype, NdArrayType


def narrow(lowered: Lowered, machine: Machine) -> Lowered:
    """Store arrays of converted numbers without the conversion, and compare these in 32 bits."""
    new = {
        buffer: replace(buffer, type=NdArrayType(buffer.type.shape, Dtype.int32))
        for buffer in _convertible(lowered.steps)
    }
    change = _Narrowed(new)
    return lowered.map_kernels(lambda kernel: Kernel(_stored(rewritten(kernel.body, change), new)))


def _convertible(steps: Sequence[Step]) -> set[Buffer]:
    """Find the temporaries that kernels alone access, and all whose stores are of converted numbers."""
    found, others = set[Buffer](), conditions(steps)
    for kernel in kernels(steps):
        for s in statements(kernel.body):
            for buffer, _ in s.writes:
                is_converted = isinstance(s, Store) and _is_widened(s.scalar)
                (found if is_converted and buffer.space is Space.WORKSPACE else others).add(buffer)
    for step in every_step(steps):
        if not isinstance(step, Kernel):
            others.update(buffer for buffer, _ in (*step.reads, *step.writes))
    return found - others


def _is_widened(scalar: Scalar) -> bool:
    return isinstance(scalar, Compute) and scalar.op == Cast(Dtype.int32, Dtype.int64)


def _stored(items: Sequence[Item], new: Mapping[Buffer, Buffer]) -> list[Item]:
    """Store numbers without the conversion."""
    narrowed = {*new.values()}

    def stored(item: Item) -> Item:
        if isinstance(item, Loop):
            return replace(item, body=[*map(stored, item.body)])
        if isinstance(item, Store) and item.buffer in narrowed:
            return replace(item, scalar=item.scalar.operands[0])
        return item

    return [*map(stored, items)]


class _Narrowed(Replaced):
    """Load elements as int32, and compare converted numbers with small indices without the conversion."""

    def _changed(self, old: Scalar) -> Scalar:
        if isinstance(old, Load) and old.buffer in self.buffers:
            return cast(Load(self.buffers[old.buffer], self.indices(old.indices)), Dtype.int64)
        new = super()._changed(old)
        if isinstance(new, Compute) and isinstance(new.op, Equal):
            x, y = new.operands if _is_widened(new.operands[0]) else reversed(new.operands)
            if _is_widened(x) and isinstance(y, IndexValue) and _fits(y.index):
                return Compute(new.op, new.dtype, (x.operands[0], replace(y, dtype=Dtype.int32)))
        return new


def _fits(index: Index) -> bool:
    """Tell whether an index is one of an int32, whatever the values of its variables are."""
    greatest = abs(index.constant) if isinstance(index.constant, int) else 2**31
    for atom, coefficient in index.terms:
        extent = atom.extent if isinstance(atom, Variable) else None
        if not isinstance(extent, int) or not isinstance(coefficient, int):
            return False
        greatest += abs(coefficient) * extent
    return greatest < 2**31
