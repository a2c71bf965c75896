"""Row padding: rows of temporaries that tensor cores multiply begin at multiples of 16 bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from catgrad.loops.ir.scalar import Buffer, Load, Space
from catgrad.loops.ir.steps import For, Lowered, conditions, every_step, in_rows, kernels
from catgrad.loops.machine import Machine
from catgrad.loops.passes.gpu.products.roles import MatrixProduct, product_nest
from catgrad.types import NdArrayType


def pad_rows(lowered: Lowered, machine: Machine) -> Lowered:
    """Pad the rows of temporary factors, so that 16 bytes of each can be copied at once."""
    rows = {row for s in every_step(lowered.steps) if isinstance(s, For) for row in s.rows}
    fixed = rows | in_rows(lowered.steps) | conditions(lowered.steps)
    new: dict[Buffer, Buffer] = {}
    for kernel in kernels(lowered.steps):
        found = product_nest(kernel.body[0]) if len(kernel.body) == 1 else None
        if found and found.is_on_tensor_cores(machine):
            for load in _in_rows(found):
                if load.buffer.space is Space.WORKSPACE and load.buffer not in fixed:
                    new[load.buffer] = _padded(load.buffer, machine.aligned_bytes)
    return lowered.replace_buffers(new)


def _in_rows(found: MatrixProduct) -> Iterator[Load]:
    """Yield the elements of factors whose places or terms, all of them, lie side by side."""
    groups = [found.rows, found.columns, found.sums]
    for load in (*found.left.loads(), *found.right.loads()):
        if len(load.buffer.order) > 1:
            along = load.indices[load.buffer.order[-1]].variable
            if along and (along,) in groups:
                yield load


def _padded(buffer: Buffer, bytes: int) -> Buffer:
    """Round the length of rows up to whole 16 bytes, if it is a number."""
    shape, axis, width = [*buffer.type.shape], buffer.order[-1], bytes // buffer.type.dtype.itemsize
    if isinstance(shape[axis], int):
        shape[axis] = -(-shape[axis] // width) * width
    return replace(buffer, type=NdArrayType(tuple(shape), buffer.type.dtype))
