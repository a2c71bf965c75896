"""Loop blocking with copying (Lam, Rothberg, Wolf 1991): arrays that are read across rows are transposed.

A nest that reads an array along one of its outer axes, element by element, touches a line of the cache for
each. A block of its iterations, as many as a line has elements, first copies what it reads of the array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from catgrad.dims import product
from catgrad.loops.ir.dependence import is_parallel
from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import (
    Indices,
    Item,
    Kernel,
    Loop,
    Replaced,
    Rewriter,
    Store,
    Substituted,
    loops,
    nested,
    rewritten,
    size_hint,
    statements,
)
from catgrad.loops.ir.scalar import Buffer, Load, Scalar
from catgrad.loops.ir.steps import Lowered
from catgrad.loops.machine import Machine, Pass
from catgrad.loops.passes.schedule.rows import blocks, rest
from catgrad.loops.passes.vectors.transposed_loads import Transposed, transposed_loads
from catgrad.types import NdArrayType

LINE_ELEMENTS = 16
"""Elements of a line of the cache: elements that lie farther apart take one each."""

MIN_COPY_WIDTH = 32
"""Elements of a row that are worth a copy."""

MIN_COPY_WORK = 2**14
"""Iterations of a nest that is worth it."""

MAX_COPY_TILES = 4
"""Tiles of `MIN_COPY_WIDTH` that a copy has, at most, in a nest whose columns can be cut, too."""

MAX_COPY = 2**13
"""Elements of a copy, at most: a first-level cache has space for them."""


@dataclass(frozen=True)
class _Limits:
    line: int
    width: int
    work: int


def transposed_copier(
    line: int = LINE_ELEMENTS, width: int = MIN_COPY_WIDTH, work: int = MIN_COPY_WORK
) -> Pass:
    """Make a pass by which nests copy, block by block, arrays that they read across rows.

    A line of the cache has `line` elements; a nest has `work` iterations at least, and its rows `width`.
    """
    limits = _Limits(line, width, work)

    def copy_transposed(lowered: Lowered, machine: Machine) -> Lowered:
        if machine.vectors.lanes == 1:
            return lowered
        return lowered.map_kernels(lambda kernel: Kernel(_Kernel(kernel, limits).changed(kernel.body, ())))

    return copy_transposed


class _Kernel:
    """A kernel, with the number of statements that use each of its own buffers."""

    def __init__(self, kernel: Kernel, limits: _Limits) -> None:
        self.uses, self.limits = _uses(kernel.body), limits

    def changed(self, items: Sequence[Item], outer: tuple[Variable, ...]) -> list[Item]:
        """Return the items of a block, which loops over these variables are around."""
        return [new for item in items for new in self._changed(item, outer)]

    def _changed(self, item: Item, outer: tuple[Variable, ...]) -> list[Item]:
        if not isinstance(item, Loop) or item.conditions:
            return [item]
        found = self._worthwhile(item, outer)
        width, limits = max((each.width for each in found), default=0), self.limits
        if width > MAX_COPY_TILES * limits.width and (tiles := _tiled(item, 2 * limits.width)):
            return self.changed(tiles, outer)
        most = min(size_hint(item.variable.extent), MAX_COPY // max(width, 1))
        size = next((rows for rows in (limits.line, limits.line // 2) if rows <= most), 0)
        if not found or not size:
            return [replace(item, body=self.changed(item.body, (*outer, item.variable)))]
        return [*_block(item, size, found, outer), *rest(self._again(item), size)]

    def _worthwhile(self, loop: Loop, outer: Sequence[Variable]) -> list[Transposed]:
        """Find the loads of a loop that are worth a copy."""
        turns, limits = size_hint(product(tuple(v.extent for v in (*outer, loop.variable)))), self.limits
        found = transposed_loads(loop, limits.line)
        return [each for each in found if each.width >= limits.width and each.width * turns >= limits.work]

    def _again(self, loop: Loop) -> Loop:
        """Return a loop with variables and buffers of its own, so that it may stand beside the old one."""
        own = {buffer: replace(buffer) for buffer, n in _uses([loop]).items() if n == self.uses[buffer]}
        variables = {inner.variable: replace(inner.variable) for inner in loops(loop.body)}
        return replace(loop, body=_counted_by(rewritten(loop.body, Replaced(own)), variables))


def _uses(items: Sequence[Item]) -> Counter[Buffer]:
    touched = ({buffer for buffer, _ in (*s.reads, *s.writes)} for s in statements(items))
    return Counter(buffer for buffers in touched for buffer in buffers if buffer.is_of_kernel)


def _counted_by(items: Sequence[Item], variables: Mapping[Variable, Variable]) -> list[Item]:
    """Replace the variables of loops."""

    def within(items: Sequence[Item]) -> list[Item]:
        return [
            replace(i, variable=variables[i.variable], body=within(i.body)) if isinstance(i, Loop) else i
            for i in items
        ]

    return within(rewritten(items, Substituted({old: index(new) for old, new in variables.items()})))


def _tiled(loop: Loop, width: int) -> list[Item]:
    """Cut the columns of a nest of two loops that carry no dependence; none if it is no such nest."""
    [*before, row] = loop.body
    if before or not isinstance(row, Loop):
        return []
    if not all(isinstance(s, Store) and not s.buffer.is_of_kernel for s in row.body):
        return []
    extent = row.variable.extent
    if not isinstance(extent, int) or not is_parallel(loop) or not is_parallel(row):
        return []
    tile, column, last = Variable(extent // width), Variable(width), Variable(extent % width)
    tiles = _columns(loop, row, column, index(tile) * width + index(column))
    return [*nested([tile], tiles), *_columns(loop, row, last, index(last) + extent // width * width)]


def _columns(loop: Loop, row: Loop, column: Variable, place: Index) -> list[Item]:
    line = replace(loop.variable)
    body = rewritten(row.body, Substituted({loop.variable: index(line), row.variable: place}))
    return nested([line, column], body)


def _block(loop: Loop, size: int, found: Sequence[Transposed], outer: Sequence[Variable]) -> list[Item]:
    """Return the loop over blocks of a loop's iterations: copies, and what reads them instead."""
    number, first = blocks(loop.variable, size)
    around = tuple(map(index, (*outer, number)))
    shape = (*(v.extent for v in (*outer, number)), size)
    line, copies, loads = Variable(size), dict[Hashable, Buffer](), dict[int, Load]()
    body: list[Item] = []
    for each in found:
        if each.key not in copies:
            array, sizes = each.load.buffer, (*shape, *(v.extent for v in each.inner))
            copies[each.key] = Buffer(array.name, NdArrayType(sizes, array.type.dtype))
            body += _copied(each, loop.variable, first, size, copies[each.key], around)
        inner = tuple(map(index, each.inner))
        loads[each.load.number] = Load(copies[each.key], (*around, index(line), *inner))
    lines = rewritten(rewritten(loop.body, _Loads(loads)), Substituted({loop.variable: first + index(line)}))
    return nested([number], [*body, Loop(line, lines)])


def _copied(
    each: Transposed, variable: Variable, first: Index, size: int, copy: Buffer, around: Indices
) -> list[Item]:
    """Copy what a block reads, along the lines of the array."""
    line, inner = Variable(size), [replace(v) for v in each.inner]
    values = dict(zip(each.inner, map(index, inner), strict=True))
    at = Substituted({**values, variable: first + index(line)}).indices(each.load.indices)
    store = Store(copy, (*around, index(line), *map(index, inner)), Load(each.load.buffer, at))
    return nested([*inner, line], [store])


class _Loads(Rewriter):
    """Replace loads, by their numbers."""

    def __init__(self, loads: Mapping[int, Load]) -> None:
        super().__init__()
        self.loads = loads

    def _changed(self, old: Scalar) -> Scalar:
        return self.loads.get(old.number) or super()._changed(old)
