"""Strip-mining: a product that one nest alone reads, row by row, is computed strip by strip inside this nest.

Array contraction then leaves one strip of the product. So the update of a parameter is the epilogue of the
product that is its gradient, which is never stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from catgrad.loops.ir.index import ZERO, Index, Variable, index
from catgrad.loops.ir.nest import (
    Indices,
    Item,
    Kernel,
    Loop,
    MatMul,
    Substituted,
    Substitution,
    may_fail,
    nested,
    own_variables,
    rewritten,
)
from catgrad.loops.ir.scalar import Buffer, Load, Scalar, Space
from catgrad.loops.ir.steps import Attend, Lowered, Product, Step, conditions, every_step
from catgrad.loops.machine import Machine, Pass
from catgrad.loops.memory_plan import byte_size
from catgrad.types import NdArrayType

STRIP_BYTES = 2**16
"""Bytes of a strip, at most, unless it is a single unit: it stays in the cache until it is read."""

STRIP_UNIT = 16
"""Rows or columns to a multiple of which strips are rounded: a line of the cache has so many elements."""

Users = Mapping[Buffer, set[Step]]
"""The kernels, products and branches that access each buffer."""


def strip_miner(most: int = STRIP_BYTES, unit: int = STRIP_UNIT) -> Pass:
    """Make a pass that moves products into the nests that read them, if these store nothing for later steps.

    Strips have `most` bytes, and a multiple of `unit` rows or columns.
    """

    def strip_mine(lowered: Lowered, machine: Machine) -> Lowered:
        users = _users(lowered)
        return lowered.map(lambda steps: _mined(steps, users, most, unit))

    return strip_mine


@dataclass(frozen=True)
class _Mined:
    """A product in a kernel of its own, and the axis of its result along which it is cut."""

    kernel: Kernel
    product: MatMul
    axis: int


def _users(lowered: Lowered) -> Users:
    users: dict[Buffer, set[Step]] = defaultdict(set)
    for step in every_step(lowered.steps):
        if isinstance(step, Kernel | Product | Attend):
            for buffer, _ in (*step.reads, *step.writes):
                users[buffer].add(step)
    for buffer in conditions(lowered.steps):
        users[buffer].update(lowered.steps)
    return users


def _mined(steps: Sequence[Step], users: Users, most: int, unit: int) -> list[Step]:
    done, moved = list[Step](), set[Step]()
    for place, step in enumerate(steps):
        found = list(_products(steps[:place], step, users))
        strips = _strips(step.body[0], found, most, unit) if found else []  # type: ignore[union-attr, arg-type]
        moved.update(each.kernel for each in found if strips)
        done += strips or [step]
    return [step for step in done if step not in moved]


def _products(before: Sequence[Step], step: Step, users: Users) -> Iterator[_Mined]:
    """Yield the products that only the nest of a kernel reads, along its outermost loop."""
    if not isinstance(step, Kernel) or not _is_mineable(step, users):
        return
    [loop] = step.body
    assert isinstance(loop, Loop)
    reads: dict[Buffer, list[Indices]] = defaultdict(list)
    for buffer, indices in step.reads:
        reads[buffer].append(indices)
    changed = {buffer.home for buffer, _ in step.writes}
    for place, kernel in reversed([*enumerate(before)]):
        if isinstance(kernel, Kernel) and len(kernel.body) == 1 and isinstance(kernel.body[0], MatMul):
            product = kernel.body[0]
            operands = {buffer for buffer, _ in kernel.reads}
            later = (buffer for each in before[place:] for buffer, _ in each.writes)
            alone = product.buffer.space is Space.WORKSPACE and users[product.buffer] == {kernel, step}
            if alone and operands.isdisjoint(later) and operands.isdisjoint(changed):
                axis = _common_axis(product, reads[product.buffer], loop.variable)
                if axis is not None:
                    yield _Mined(kernel, product, axis)


def _is_mineable(kernel: Kernel, users: Users) -> bool:
    """Tell whether a kernel is one nest, which stores nothing for later steps but what it changes."""
    if len(kernel.body) != 1 or may_fail(kernel.body):
        return False
    loop, written = kernel.body[0], {buffer for buffer, _ in kernel.writes}
    written -= {buffer for buffer, _ in kernel.reads}
    stored = any(b.space is Space.WORKSPACE and users[b] != {kernel} for b in written)
    return isinstance(loop, Loop) and not loop.conditions and not stored


def _common_axis(product: MatMul, reads: Sequence[Indices], variable: Variable) -> int | None:
    """Find the axis along which a product has its rows or columns, and a loop reads one at each iteration."""
    for axis, own in enumerate(product.indices):
        if own.variable in (product.rows[0], product.columns[0]) and all(
            i[axis].variable is variable for i in reads
        ):
            return axis
    return None


def _strips(loop: Loop, products: Sequence[_Mined], most: int, unit: int) -> list[Step]:
    """Return the kernels of whole strips and of the rest; none if a size is unknown, or one strip is all."""
    extent = loop.variable.extent
    bytes = sum((byte_size(each.product.buffer) for each in products), 0)
    if not isinstance(extent, int) or not isinstance(bytes, int):
        return []
    count = -(-extent // max(unit, most * extent // bytes // unit * unit))
    width = -(-extent // count // unit) * unit
    if width >= extent:
        return []
    whole, rest = divmod(extent, width)
    number = Variable(whole)
    nests = [Kernel(nested([number], _strip(loop, products, index(number), whole, width, 0)))]
    if rest:
        nests.append(Kernel(_strip(loop, products, ZERO, 1, rest, whole * width)))
    return [*nests]


def _strip(
    loop: Loop, products: Sequence[_Mined], number: Index, count: int, width: int, start: int
) -> list[Item]:
    """Return one of some strips by its number, all of which begin at `start`: its products, then its nest."""
    offset, inner = number * width + start, Variable(width)
    body, cut = list[Item](), dict[Buffer, tuple[Buffer, int]]()
    for each in products:
        product, axis = each.product, each.axis
        old = next(v for v in own_variables(product) if v is product.indices[axis].variable)
        new = replace(old, extent=width)
        buffer = _cut(product.buffer, axis, count, width)
        moved = product.map(Substituted({old: offset + index(new)}))
        at = (*product.indices[:axis], number, index(new), *product.indices[axis + 1 :])
        rows, columns = (
            tuple(new if v is old else v for v in group) for group in (product.rows, product.columns)
        )
        body.append(replace(moved, buffer=buffer, indices=at, rows=rows, columns=columns))
        cut[product.buffer] = buffer, axis
    change = _Cut({loop.variable: offset + index(inner)}, cut, (number, index(inner)))
    return [*body, replace(loop, variable=inner, body=rewritten(loop.body, change))]


def _cut(buffer: Buffer, axis: int, count: int, width: int) -> Buffer:
    """Split an axis into strips and the places in them."""
    shape = (*buffer.type.shape[:axis], count, width, *buffer.type.shape[axis + 1 :])
    order = [place for a in buffer.order for place in ((a, a + 1) if a == axis else (a + (a > axis),))]
    return replace(buffer, type=NdArrayType(shape, buffer.type.dtype), order=tuple(order))


class _Cut(Substituted):
    """Substitute indices for variables, and load strips instead of whole products."""

    def __init__(self, values: Substitution, cut: Mapping[Buffer, tuple[Buffer, int]], at: Indices) -> None:
        super().__init__(values)
        self.cut, self.at = cut, at

    def _changed(self, old: Scalar) -> Scalar:
        if not isinstance(old, Load) or old.buffer not in self.cut:
            return super()._changed(old)
        buffer, axis = self.cut[old.buffer]
        before, after = self.indices(old.indices[:axis]), self.indices(old.indices[axis + 1 :])
        return Load(buffer, (*before, *self.at, *after))
