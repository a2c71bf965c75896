"""Outer-loop vectorisation: where loops within a row are short, each lane processes one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from catgrad.loops.ir.index import Index, Read, Variable, index
from catgrad.loops.ir.nest import (
    Accumulate,
    Indices,
    Item,
    Kernel,
    Loop,
    Rewriter,
    Statement,
    Store,
    Substituted,
    loops,
    nested,
    rewritten,
    size_hint,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Load, Masked, Scalar, Space, number
from catgrad.loops.ir.steps import Lowered
from catgrad.loops.machine import Machine
from catgrad.loops.passes.schedule.fuse import fused
from catgrad.loops.passes.schedule.interchange import sums_innermost
from catgrad.loops.passes.schedule.reductions import lanes_of
from catgrad.loops.passes.schedule.rows import blocks, rest
from catgrad.ops.arithmetic import Add
from catgrad.types import NdArrayType

MAX_INNER_ITERATIONS = 32
"""Iterations of inner loops that are too short to be vectorised."""

MAX_SUMS = 2**10
"""Elements of the accumulators that the rows of a nest are summed into."""


def vectorise_rows(lowered: Lowered, machine: Machine) -> Lowered:
    """Make the last nest of each kernel process as many rows at a time as there are lanes."""
    if machine.vectors.lanes == 1:
        return lowered
    return lowered.map_kernels(lambda kernel: _widened(kernel, machine.vectors.lanes))


def _widened(kernel: Kernel, lanes: int) -> Kernel:
    place = max((k for k, item in enumerate(kernel.body) if isinstance(item, Loop)), default=None)
    if place is None:
        return kernel
    rows = kernel.body[place]
    if not isinstance(rows, Loop):
        return kernel
    private = _private(rows, [*kernel.body[:place], *kernel.body[place + 1 :]])
    if not _is_fit(rows, lanes, private):
        return kernel
    wide = _Lanes(rows, lanes, private)
    nest = [*wide.begin, Loop(wide.block, wide.body), *wide.end, *rest(rows, lanes)]
    return Kernel([*kernel.body[:place], *nest, *kernel.body[place + 1 :]])


def _sums_in_registers(items: list[Item]) -> list[Item]:
    """Move sums within a row innermost, and fuse each with the loops that begin it and read it.

    Nothing moves where a new value overwrites an old one: fusion does not know that they share memory.
    """
    if any(buffer is not buffer.home for item in items for buffer, _ in item.writes):
        return items
    return [item for kernel in fused(sums_innermost(items)) for item in kernel.body]


def _private(rows: Loop, others: Sequence[Item]) -> set[Buffer]:
    """Find the registers that each row sets before it reads them, and nothing else uses."""
    first: dict[Buffer, Statement] = {}
    for s in statements(rows.body):
        for buffer, _ in (*s.reads, *s.writes):
            first.setdefault(buffer, s)
    outside = {buffer for item in others for buffer, _ in (*item.reads, *item.writes)}
    return {
        buffer
        for buffer, s in first.items()
        if buffer.is_register and buffer not in outside and isinstance(s, Store) and s in rows.body
    }


def _is_fit(rows: Loop, lanes: int, private: set[Buffer]) -> bool:
    count = rows.variable.extent
    inner = list(loops(rows.body))
    if (isinstance(count, int) and count < lanes) or not inner or rows.conditions:
        return False
    sizes = [loop.variable.extent for loop in inner]
    if not all(isinstance(size, int) and size < MAX_INNER_ITERATIONS for size in sizes):
        return False
    parts = list(statements(rows.body))
    if not any(isinstance(s, Accumulate) for s in parts):
        return False  # scalars are as fast one after the other
    places = [array.flat(indices) for s in parts for array, indices in (*s.reads, *s.writes)]
    if any(size_hint(place.coefficient(rows.variable)) > MAX_INNER_ITERATIONS for place in places):
        return False  # the loops may become one over elements side by side, where lanes would gather
    return all(_is_plain(s, rows.variable, private) for s in parts)


def _is_plain(s: Statement, row: Variable, private: set[Buffer]) -> bool:
    """Tell whether a statement is of scalars private to a row, or of sums over rows."""
    if not isinstance(s, (Store, Accumulate)):
        return False
    size = s.buffer.size
    if s.buffer.is_of_kernel and not (isinstance(size, int) and size <= MAX_SUMS):
        return False
    if any(isinstance(atom, Read) for i in s.indices for atom, _ in i.terms) or not _is_regular(s.scalar):
        return False
    has_row = s.buffer in private or any(i.coefficient(row) for i in s.indices)
    return has_row or (
        isinstance(s, Accumulate) and isinstance(s.op, Add) and isinstance(size, int) and size <= MAX_SUMS
    )


def _is_regular(scalar: Scalar) -> bool:
    if isinstance(scalar, Masked):
        return False
    loads_read = isinstance(scalar, Load) and any(
        isinstance(a, Read) for i in scalar.indices for a, _ in i.terms
    )
    return not loads_read and all(map(_is_regular, scalar.operands))


class _Lanes:
    """The nest for a block of rows; `begin` and `end` are for the sums over rows."""

    def __init__(self, rows: Loop, lanes: int, private: set[Buffer]) -> None:
        self.private = private
        self.row, self.lanes = rows.variable, lanes
        self.block, self.first = blocks(rows.variable, lanes)
        self.wide: dict[Buffer, Buffer] = {}
        self.totals: dict[Buffer, Buffer] = {}
        self.copies: dict[tuple[Buffer, int], Buffer] = {}
        self.begin: list[Item] = []
        self.end: list[Item] = []
        self.written = {array for array, _ in rows.writes}
        body = self._wide_items(_sums_in_registers(rows.body))
        copies = [item for key, copy in self.copies.items() for item in self._copied(*key, copy)]
        self.body = [*copies, *body]
        for array, total in self.totals.items():
            self._add_up(array, total)

    def _wide_items(self, items: Sequence[Item]) -> list[Item]:
        """Vectorise items for a block of rows: consecutive statements share one loop over lanes."""
        result: list[Item] = []
        run: list[Statement] = []
        for item in items:
            if isinstance(item, Loop):
                result += self._run(run)
                run = []
                again = replace(item.variable)  # `rest` keeps the old one
                body = rewritten(self._wide_items(item.body), Substituted({item.variable: index(again)}))
                result.append(replace(item, variable=again, body=body))
            else:
                run.append(item)
        return result + self._run(run)

    def _run(self, run: Sequence[Statement]) -> list[Item]:
        if not run:
            return []
        lane = Variable(self.lanes)
        place = Substituted({self.row: self.first + index(lane)})
        return [Loop(lane, rewritten([self._statement(s, lane) for s in run], place))]

    def _statement(self, s: Statement, lane: Variable) -> Statement:
        """Return the statement of one lane."""
        if not isinstance(s, (Store, Accumulate)):
            return s
        scalar = _LaneLoads(self, lane).scalar(s.scalar)
        array, indices = self._access(s.buffer, s.indices, lane)
        if isinstance(s, Store):
            return Store(array, indices, scalar)
        return Accumulate(array, indices, s.op, scalar)

    def _access(self, array: Buffer, indices: Indices, lane: Variable) -> tuple[Buffer, Indices]:
        at = tuple(indices[axis] for axis in array.order)
        if any(i.coefficient(self.row) for i in at):
            return array, indices
        if array in self.private or any(i.coefficient(self.row) for i in indices):
            return self._lane_of(self.wide, array, array.name), (*at, index(lane))
        if array in self.written:
            return self._lane_of(self.totals, array, lanes_of(array.name)), (*at, index(lane))
        return array, indices

    def _lane_of(self, known: dict[Buffer, Buffer], array: Buffer, name: str) -> Buffer:
        """Scalar expansion: the array with one element for each lane, contiguous."""
        if array not in known:
            shape = (*(array.type.shape[axis] for axis in array.order), self.lanes)
            known[array] = Buffer(name, NdArrayType(shape, array.type.dtype), Space.LOCAL)
        return known[array]

    def load(self, old: Load, lane: Variable) -> Load:
        """Return the load of one lane, perhaps from a transposed copy."""
        array, indices = self._access(old.buffer, old.indices, lane)
        if array is old.buffer and self._is_worth_copying(old):
            within = tuple(i for i in indices if i.variable is not self.row)
            return Load(self._copy_of(array, indices), (*within, index(lane)))
        return old if array is old.buffer else Load(array, indices)

    def _is_worth_copying(self, load: Load) -> bool:
        """Tell whether elements of different rows are strided, and each row is short."""
        axes = [axis for axis, i in enumerate(load.indices) if i.coefficient(self.row)]
        if load.buffer in self.written or load.buffer.is_of_kernel or len(axes) != 1:
            return False
        if load.indices[axes[0]].variable is not self.row or load.buffer.stride(load.indices, self.row) == 1:
            return False
        row = [size for axis, size in enumerate(load.buffer.type.shape) if axis not in axes]
        are_numbers = all(isinstance(size, int) for size in row)
        return are_numbers and prod(map(size_hint, row)) <= MAX_INNER_ITERATIONS

    def _copy_of(self, array: Buffer, indices: Indices) -> Buffer:
        """Return the transposed copy of an array whose rows are along the axis indexed by the row."""
        axis = next(a for a, i in enumerate(indices) if i.variable is self.row)
        if (array, axis) not in self.copies:
            shape = (*array.type.shape[:axis], *array.type.shape[axis + 1 :], self.lanes)
            self.copies[array, axis] = Buffer(array.name, NdArrayType(shape, array.type.dtype), Space.LOCAL)
        return self.copies[array, axis]

    def _copied(self, array: Buffer, axis: int, copy: Buffer) -> list[Item]:
        """Transpose: copy the rows of an array side by side."""
        every = [Variable(size) for size in copy.type.shape]
        *within, lane = map(index, every)
        row = self.first + lane
        at = (*within[:axis], row, *within[axis:])
        return nested(every, [Store(copy, (*within, lane), Load(array, at))])

    def _add_up(self, array: Buffer, total: Buffer) -> None:
        """Set the rows' sums to zero before the nest, and sum over the lanes after it."""
        zero = number(0, array.type.dtype)
        every = [Variable(size) for size in total.type.shape]
        self.begin += nested(every, [Store(total, tuple(map(index, every)), zero)])
        *free, lane = (Variable(size) for size in total.type.shape)
        at = tuple(map(index, free))
        lanes = Buffer(f"{array.name}_sum", NdArrayType((), array.type.dtype), Space.REGISTER)
        summed = nested([lane], [Accumulate(lanes, (), Add(), Load(total, (*at, index(lane))))])
        last = Accumulate(array, _all_axes(array, at), Add(), Load(lanes, ()))
        self.end += nested(free, [Store(lanes, (), zero), *summed, last])


class _LaneLoads(Rewriter):
    """Replace loads by those of one lane."""

    def __init__(self, lanes: _Lanes, lane: Variable) -> None:
        super().__init__()
        self.lanes, self.lane = lanes, lane

    def _changed(self, old: Scalar) -> Scalar:
        return self.lanes.load(old, self.lane) if isinstance(old, Load) else super()._changed(old)


def _all_axes(array: Buffer, kept: Indices) -> Indices:
    """Return indices for every axis; those of axes that are not stored do not matter."""
    places = dict(zip(array.order, kept, strict=True))
    return tuple(places.get(axis, Index()) for axis in range(array.type.rank))
