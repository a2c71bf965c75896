"""Strip mining by four: threads of large grids process neighbouring elements, in accesses of 16 bytes."""

from __future__ import annotations

from dataclasses import replace

from catgrad.dims import divided
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Axis, Loop, Substituted, rewritten
from catgrad.loops.ir.steps import Lowered
from catgrad.loops.machine import Machine
from catgrad.types import NdArrayType

WIDTH = 4
"""Elements of a thread."""

MIN_ELEMENTS = 2**16
"""Elements of a grid that has threads enough all the same."""


def widened(loop: Loop) -> Loop:
    """Give each thread of a grid four neighbouring elements."""
    [inner] = loop.body if len(loop.body) == 1 else [None]
    if isinstance(inner, Loop) and inner.axis is loop.axis:
        return replace(loop, body=[widened(inner)])
    extent = divided(loop.variable.extent, WIDTH)
    if extent is None or any(isinstance(item, Loop) for item in loop.body):
        return loop
    strip, near = Variable(extent), Variable(WIDTH, "near")
    change = Substituted({loop.variable: index(strip) * WIDTH + index(near)})
    body = Loop(near, rewritten(loop.body, change), axis=Axis.UNROLLED)
    return replace(loop, variable=strip, body=[body])


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
