"""Strip-mining: a product that one nest alone reads, by rows or by columns, is computed in strips inside it.

Array contraction then leaves one strip of the product. So the update of a parameter is the epilogue of the
product that is its gradient, which is never stored. Each strip of rows reads all of the right operand again,
one of columns all of the left: products are not cut if that would leave the cache before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from catgrad.loops.ir.dependence import is_parallel
from catgrad.loops.ir.index import ZERO, Index, Variable, index
from catgrad.loops.ir.nest import (
    Indices,
    Item,
    Kernel,
    Loop,
    MatMul,
    Replaced,
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
"""Bytes of a strip, at most, unless it has few rows: it stays in the cache until it is read."""

FEW_ROWS = 64
"""Least number of rows of a strip, as each strip reads the other operand again."""

MANY_BYTES = 2**20
"""Limit of the bytes of `FEW_ROWS` rows; where they have more, a strip has fewer rows."""

INNER_STRIP_RATIO = 4
"""Bytes of a strip along an inner loop, over those along the outermost: its rows are not contiguous."""

OPERAND_BYTES = 2**21
"""Bytes of operands that every strip reads, at most: they stay in the cache from one strip to the next."""

STRIP_UNIT = 16
"""Rows or columns to a multiple of which strips are rounded: a line of the cache has so many elements."""

Users = Mapping[Buffer, set[Step]]
"""The kernels, products and branches that access each buffer."""


@dataclass(frozen=True)
class _Limits:
    """Bytes of a strip, the unit of its rows or columns, bytes of operands that each reads, and few rows.

    Few rows have `many` bytes at most.
    """

    bytes: int
    unit: int
    operands: int
    few: int
    many: int
    columns_first: bool


def strip_miner(
    most: int = STRIP_BYTES,
    unit: int = STRIP_UNIT,
    operands: int = OPERAND_BYTES,
    few: int = FEW_ROWS,
    many: int = MANY_BYTES,
    columns_first: bool = False,
) -> Pass:
    """Make a pass that moves products into the nests that read them, if these store nothing for later steps.

    Strips have `most` bytes or `few` rows or columns of `many` bytes, and a multiple of `unit`; each reads
    `operands` bytes, at most, which the others read too. Loops within the outermost are tried first if
    `columns_first`: where products copy the right operand, strips of its columns copy it once.
    """

    def strip_mine(lowered: Lowered, machine: Machine) -> Lowered:
        users, limits = _users(lowered), _Limits(most, unit, operands, few, many, columns_first)
        return lowered.map(lambda steps: _mined(steps, users, limits))

    return strip_mine


@dataclass(frozen=True)
class _Mined:
    """A product in a kernel of its own, and the axis of its result along which it is cut."""

    kernel: Kernel
    product: MatMul
    axis: int

    @property
    def other(self) -> Load:
        """The operand that every strip reads: the right one of strips of rows."""
        of_rows = self.product.indices[self.axis].variable is self.product.rows[0]
        return self.product.right if of_rows else self.product.left


def _users(lowered: Lowered) -> Users:
    users: dict[Buffer, set[Step]] = defaultdict(set)
    for step in every_step(lowered.steps):
        if isinstance(step, Kernel | Product | Attend):
            for buffer, _ in (*step.reads, *step.writes):
                users[buffer].add(step)
    for buffer in conditions(lowered.steps):
        users[buffer].update(lowered.steps)
    return users


def _mined(steps: Sequence[Step], users: Users, limits: _Limits) -> list[Step]:
    done, moved = list[Step](), set[Step]()
    for place, step in enumerate(steps):
        found, strips = _cut_nest(steps[:place], step, users, limits)
        moved.update(each.kernel for each in found)
        done += strips or [step]
    return [step for step in done if step not in moved]


def _cut_nest(
    before: Sequence[Step], step: Step, users: Users, limits: _Limits
) -> tuple[Sequence[_Mined], Sequence[Step]]:
    """Cut a nest along its outermost loop that may be: return its products, and kernels in place of it."""
    if isinstance(step, Kernel) and _is_mineable(step):
        variables = list(enumerate(_variables(step.body[0])))
        for depth, variable in [*variables[1:], *variables[:1]] if limits.columns_first else variables:
            found = list(_products(before, step, users, variable))
            wide = replace(limits, bytes=limits.bytes * INNER_STRIP_RATIO) if depth else limits
            own = _own(step, users, variable)
            if strips := _strips(step.body[0], variable, found, wide, own) if found else []:
                return found, strips
    return [], []


def _variables(item: Item) -> Iterator[Variable]:
    """Yield the variables along which a nest may be cut: the outermost, and those within parallel loops."""
    while isinstance(item, Loop) and not item.conditions:
        yield item.variable
        if len(item.body) != 1 or not is_parallel(item):
            return
        [item] = item.body


def _products(before: Sequence[Step], step: Kernel, users: Users, variable: Variable) -> Iterator[_Mined]:
    """Yield the products that only the nest of a kernel reads, of which a variable is row or column.

    If the nest stores something for later steps, these are products of bytes, whose sums are rounded there.
    """
    stores = _stores(step, users)
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
            fits = not stores or product.left.dtype.itemsize == 1
            if alone and fits and operands.isdisjoint(later) and operands.isdisjoint(changed):
                axis = _common_axis(product, reads[product.buffer], variable)
                if axis is not None and not _cuts_weight(product, axis):
                    yield _Mined(kernel, product, axis)


def _is_mineable(kernel: Kernel) -> bool:
    """Tell whether a kernel is one nest."""
    if len(kernel.body) != 1 or may_fail(kernel.body):
        return False
    loop = kernel.body[0]
    return isinstance(loop, Loop) and not loop.conditions


def _stores(kernel: Kernel, users: Users) -> bool:
    """Tell whether a kernel stores anything for later steps but what it changes."""
    written = {buffer for buffer, _ in kernel.writes} - {buffer for buffer, _ in kernel.reads}
    return any(b.space is Space.WORKSPACE and users[b] != {kernel} for b in written)


def _common_axis(product: MatMul, reads: Sequence[Indices], variable: Variable) -> int | None:
    """Find the axis along which a product has its rows or columns, and a loop reads one at each iteration."""
    for axis, own in enumerate(product.indices):
        if own.variable in (product.rows[0], product.columns[0]) and all(
            i[axis].variable is variable for i in reads
        ):
            return axis
    return None


def _cuts_weight(product: MatMul, axis: int) -> bool:
    """Tell whether strips are columns of an argument, which are short rows far apart, and not packed."""
    is_column = product.indices[axis].variable in product.columns
    return is_column and product.right.buffer.space is Space.ARGUMENT


def _own(kernel: Kernel, users: Users, variable: Variable) -> list[Buffer]:
    """List the temporaries of a kernel of which each iteration over a variable touches a part of its own."""
    accesses: dict[Buffer, list[Indices]] = defaultdict(list)
    for buffer, indices in (*kernel.reads, *kernel.writes):
        if buffer.space is Space.WORKSPACE and users[buffer] == {kernel}:
            accesses[buffer].append(indices)
    return [
        buffer
        for buffer, every in accesses.items()
        if any(all(i[axis].variable is variable for i in every) for axis in range(buffer.type.rank))
    ]


def _strips(
    nest: Item, variable: Variable, products: Sequence[_Mined], limits: _Limits, own: Sequence[Buffer]
) -> list[Step]:
    """Return the kernels of whole strips and of the rest; none if sizes are unknown, or do not suit.

    Both have temporaries of their `own`, so that these are contracted.
    """
    extent = variable.extent
    bytes = sum((byte_size(each.product.buffer) for each in products), 0)
    again = sum((byte_size(each.other.buffer) for each in products), 0)
    if not isinstance(extent, int) or not isinstance(bytes, int):
        return []
    if not isinstance(again, int) or again > limits.operands:
        return []
    unit = limits.unit
    few = min(limits.few, extent // 2, limits.many * extent // bytes)
    count = -(-extent // max(unit, max(few, limits.bytes * extent // bytes) // unit * unit))
    width = -(-extent // count // unit) * unit
    if width >= extent:
        return []
    whole, rest = divmod(extent, width)
    number = Variable(whole)
    strip = _Strip(nest, variable, products, whole, width)
    nests = [Kernel(nested([number], strip.items(index(number), width)))]
    if rest:
        last = replace(strip, start=whole * width, count=1)
        nests.append(Kernel(rewritten(last.items(ZERO, rest), Replaced({b: replace(b) for b in own}))))
    return [*nests]


@dataclass(frozen=True)
class _Strip:
    """A nest and its products in strips along a variable: a `count` of them, which begin at `start`."""

    nest: Item
    variable: Variable
    products: Sequence[_Mined]
    count: int
    width: int
    start: int = 0

    def items(self, number: Index, width: int) -> list[Item]:
        """Return one strip, of this width, by its number: its products, then its nest."""
        offset, inner = number * self.width + self.start, Variable(width)
        body, cut = list[Item](), dict[Buffer, tuple[Buffer, int]]()
        for each in self.products:
            product, axis = each.product, each.axis
            old = next(v for v in own_variables(product) if v is product.indices[axis].variable)
            new = replace(old, extent=width)
            buffer = _cut(product.buffer, axis, self.count, width)
            moved = product.map(Substituted({old: offset + index(new)}))
            at = (*product.indices[:axis], number, index(new), *product.indices[axis + 1 :])
            rows, columns = (
                tuple(new if v is old else v for v in group) for group in (product.rows, product.columns)
            )
            body.append(replace(moved, buffer=buffer, indices=at, rows=rows, columns=columns))
            cut[product.buffer] = buffer, axis
        change = _Cut({self.variable: offset + index(inner)}, cut, (number, index(inner)))
        return [*body, self._within(self.nest, inner, change)]

    def _within(self, item: Item, inner: Variable, change: _Cut) -> Item:
        """Return the nest with the places in a strip in place of the variable."""
        assert isinstance(item, Loop)
        if item.variable is self.variable:
            return replace(item, variable=inner, body=rewritten(item.body, change))
        return replace(item, body=[self._within(item.body[0], inner, change)])


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
