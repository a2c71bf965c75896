"""Row padding: rows of temporaries that products read or write begin at multiples of 16 or 128 bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import Access, Kernel
from catgrad.loops.ir.scalar import Buffer, Space
from catgrad.loops.ir.steps import For, Lowered, Product, Step, conditions, every_step, in_rows
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.products.roles import product_nest
from catgrad.types import NdArrayType

LONG = 256
"""Elements of a row beside which padding is small, so that it has some for any product."""

LINE = 128
"""Bytes of a line of the cache, which long rows begin at, as boxes of tensor maps then have whole lines."""

LINES = 32
"""Lines of a row beside which one more is small."""


def pad_rows(lowered: Lowered, machine: Machine) -> Lowered:
    """Pad the rows of temporaries of products, so that 16 bytes of each can be loaded or stored at once."""
    steps = [*every_step(lowered.steps)]
    fixed = {row for step in steps if isinstance(step, For) for row in step.rows}
    fixed |= in_rows(lowered.steps) | conditions(lowered.steps)
    fixed |= {b for step in steps if isinstance(step, Product) for b in _joined(step)}
    found = {buffer for step in steps for buffer in _in_rows(step, machine)}
    return lowered.replace_buffers(
        {
            buffer: _padded(buffer, machine.aligned_bytes)
            for buffer in found - fixed
            if buffer.space is Space.WORKSPACE
        }
    )


def _in_rows(step: Step, machine: Machine) -> Iterator[Buffer]:
    """Yield the arrays of a product whose rows have all of its rows, columns or terms side by side.

    These are factors for tensor cores, and all arrays whose rows are long.
    """
    if isinstance(step, Product):
        accesses, short = [*step.reads, *step.writes], list[Access]()
        groups = [step.matmul.rows, step.matmul.columns, step.matmul.depth]
    elif isinstance(step, Kernel) and len(step.body) == 1 and (found := product_nest(step.body[0])):
        accesses, groups = [*step.reads, *step.writes], [found.rows, found.columns, found.sums]
        factors = (*found.left.loads(), *found.right.loads()) if found.is_on_tensor_cores(machine) else ()
        short = [(load.buffer, load.indices) for load in factors]
    else:
        return
    yield from (access[0] for access in short if _along(access, groups))
    yield from (access[0] for access in accesses if _along(access, groups) and _is_long(access[0]))


def _along(access: Access, groups: Sequence[tuple[Variable, ...]]) -> bool:
    """Tell whether one of the groups of variables counts the elements of rows, or of each part of them."""
    buffer, indices = access
    terms = indices[buffer.order[-1]].terms if len(buffer.order) > 1 else ()
    along = [atom for atom, coefficient in terms if coefficient == 1]
    return len(along) == 1 and any(group == (along[0],) for group in groups)


def _is_long(buffer: Buffer) -> bool:
    length = buffer.type.shape[buffer.order[-1]]
    return isinstance(length, int) and length >= LONG


def _joined(step: Product) -> Iterator[Buffer]:
    """Yield the arrays of a call that has several axes of them as one, whose strides must stay regular."""
    for buffer, indices in (*step.reads, *step.writes):
        if len(buffer.order) > 1 and indices[buffer.order[-1]].variable is None:
            yield buffer


def _padded(buffer: Buffer, bytes: int) -> Buffer:
    """Round the length of rows up to whole 16 bytes, or long ones to whole lines, if it is a number."""
    shape, axis, size = [*buffer.type.shape], buffer.order[-1], buffer.type.dtype.itemsize
    length = shape[axis]
    if isinstance(length, int) and length * size % bytes:
        unit = LINE if length * size >= LINES * LINE else bytes
        shape[axis] = -(-length * size // unit) * unit // size
    return replace(buffer, type=NdArrayType(tuple(shape), buffer.type.dtype))
