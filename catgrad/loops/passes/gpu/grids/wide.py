"""Strip mining by four: threads of large grids process neighbouring elements, in accesses of 16 bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from catgrad.dims import divided
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import (
    Accumulate,
    Item,
    Loop,
    Replaced,
    Statement,
    Store,
    Substituted,
    loops,
    rewritten,
)
from catgrad.loops.ir.scalar import Buffer, Load, Scalar, Space
from catgrad.loops.ir.steps import Lowered
from catgrad.loops.machine import Machine
from catgrad.types import NdArrayType

WIDTH = 4
"""Elements of a thread."""

MIN_ELEMENTS = 2**16
"""Elements of a grid that has threads enough all the same."""

MIN_SUMS = 2**18
"""The same of a grid whose elements are sums."""


def widened(loop: Loop) -> Loop:
    """Give each thread of a grid four neighbouring elements."""
    [inner] = loop.body if len(loop.body) == 1 else [None]
    if isinstance(inner, Loop) and inner.axis is loop.axis:
        return replace(loop, body=[widened(inner)])
    extent = divided(loop.variable.extent, WIDTH)
    if extent is None or not _is_side_by_side(loop):
        return loop
    strip, near = Variable(extent), Variable(WIDTH, "near")
    change = Substituted({loop.variable: index(strip) * WIDTH + index(near)})
    body = rewritten(loop.body, change)
    own = {
        b: replace(b, type=b.type.with_shape((WIDTH,)), space=Space.LOCAL, order=(0,))
        for b in _long_lived(body)
    }
    return replace(loop, variable=strip, body=_strips(body, near, _Expanded(own, index(near))))


def _long_lived(items: Sequence[Item]) -> set[Buffer]:
    """Find the registers that are accessed on both sides of the beginning or end of a loop."""
    places: dict[Buffer, set[int]] = {}
    place = count()

    def visit(items: Sequence[Item]) -> None:
        here = next(place)
        for item in items:
            if isinstance(item, Loop):
                visit(item.body)
                here = next(place)
            else:
                for buffer, _ in (*item.reads, *item.writes):
                    places.setdefault(buffer, set()).add(here)

    visit(items)
    return {buffer for buffer, found in places.items() if buffer.is_register and len(found) > 1}


def _has_loops(loop: Loop) -> bool:
    return any(isinstance(item, Loop) for item in loop.body)


def _is_side_by_side(loop: Loop) -> bool:
    """Tell whether a nest has no loops, or sums what lies side by side in neighbouring iterations."""
    if not _has_loops(loop):
        return True
    straight = all(each.axis is Axis.SERIAL and not each.conditions for each in loops(loop.body))
    moving = [place for place in (b.flat(i) for b, i in loop.reads) if loop.variable in place.variables()]
    return straight and all(place.coefficient(loop.variable) == 1 for place in moving)


def _strips(items: Sequence[Item], near: Variable, change: _Expanded) -> list[Item]:
    """Distribute a loop over neighbours over items."""
    done: list[Item] = []
    strip: list[Item] = []
    for item in items:
        if not isinstance(item, Loop):
            strip.append(change.statement(item))
            continue
        done += [Loop(near, strip, axis=Axis.UNROLLED)] if strip else []
        done.append(replace(item, body=_strips(item.body, near, change)))
        strip = []
    return [*done, Loop(near, strip, axis=Axis.UNROLLED)] if strip else done


class _Expanded(Replaced):
    """Scalar expansion: registers become arrays, with an element for each neighbour."""

    def __init__(self, own: Mapping[Buffer, Buffer], near: Index) -> None:
        super().__init__(own)
        self.near = near

    def statement(self, s: Statement) -> Statement:
        """Rewrite a statement, which may write a register."""
        new = s.map(self)
        if isinstance(new, (Store, Accumulate)) and new.buffer in self.buffers.values():
            return replace(new, indices=(self.near,))
        return new

    def _changed(self, old: Scalar) -> Scalar:
        if isinstance(old, Load) and old.buffer in self.buffers:
            return Load(self.buffers[old.buffer], (self.near,))
        return super()._changed(old)


def mark_unaligned(lowered: Lowered, machine: Machine) -> Lowered:
    """Mark the arrays that callers pass one row after another, which begin anywhere."""
    ports = (*lowered.function.inputs, *lowered.function.outputs)
    pairs = zip((*lowered.arguments, *lowered.results), ports, strict=True)
    own = [buffer for buffer, port in pairs if not port.role.is_table]
    new = {b: replace(b, is_aligned=False) for b in own if not keeps_alignment(b.type, machine.aligned_bytes)}
    arguments, results = ([new.get(b, b) for b in each] for each in (lowered.arguments, lowered.results))
    return replace(lowered, arguments=arguments, results=results).replace_buffers(new)


def keeps_alignment(type: NdArrayType, bytes: int) -> bool:
    """Tell whether an array keeps the alignment of the one before it, in a sequence of such arrays."""
    return divided(type.size * type.dtype.itemsize, bytes) is not None
