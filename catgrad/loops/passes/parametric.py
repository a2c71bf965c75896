"""Parametric kernels: elementwise nests, and sums, over whole arrays take their extents as arguments.

The place of an element that an iteration touches is the number of the iteration in row-major order. So nests
that differ in extents alone, such as the updates of parameters of several shapes, are one function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from catgrad.dims import Dim, product
from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import ZERO, Index, Variable, combined, index
from catgrad.loops.ir.nest import Accumulate, Indices, Item, Kernel, Loop, Rewriter, Store, loops, scalars
from catgrad.loops.ir.scalar import IndexValue, Masked, Space

NAMES = {1: ("size",), 2: ("rows", "columns")}
"""Names of the extents of nests, by the number of loops."""

COUNTED = (Axis.SERIAL, Axis.PARALLEL, Axis.VECTOR, Axis.WIDE, Axis.GRID)
"""Kinds of loops whose extents may be arguments; those of unrolled loops are not."""


def parametric(kernel: Kernel) -> tuple[Kernel, Mapping[str, int]] | None:
    """Replace the extents of an elementwise nest by symbols; returns their values too, or None for others."""
    every = [*loops(kernel.body)]
    old = [loop.variable for loop in every]
    counted = [loop.variable for loop in every if loop.axis in COUNTED]
    extents = [v.extent for v in counted if isinstance(v.extent, int) and v.step == 1]
    if (
        len(counted) not in NAMES
        or len(extents) < len(counted)
        or not _is_elementwise(kernel.body, _place(old))
    ):
        return None
    names = dict(zip(counted, NAMES[len(counted)], strict=True))
    new = [Variable(Dim(names[v]) if v in names else v.extent, v.name) for v in old]
    change = _RowMajor(dict(zip(old, new, strict=True)), _place(new))
    return Kernel(change.items(kernel.body)), dict(zip(names.values(), extents, strict=True))


def _place(variables: Sequence[Variable]) -> Index:
    """Number the iterations of a nest in row-major order."""
    extents = tuple(v.extent for v in variables)
    return combined((index(v), product(extents[k + 1 :])) for k, v in enumerate(variables))


def _is_elementwise(items: Sequence[Item], place: Index) -> bool:
    """Tell whether items are assignments in one nest, whose indices are its place or do not depend on it."""
    inner = [item for item in items if isinstance(item, Loop)]
    own = [item for item in items if not isinstance(item, Loop)]
    return (
        len(inner) <= 1
        and all(isinstance(s, (Store, Accumulate)) and _is_in_place(s, place) for s in own)
        and all(
            x.axis in (*COUNTED, Axis.UNROLLED) and not x.conditions and _is_elementwise(x.body, place)
            for x in inner
        )
    )


def _is_in_place(s: Store | Accumulate, place: Index) -> bool:
    free = {*place.variables()}
    nodes = [node for scalar in scalars(s) for node in scalar.nodes()]
    indices = [node.index for node in nodes if isinstance(node, IndexValue)]
    for buffer, each in (*s.reads, *s.writes):
        flat = buffer.flat(each)
        if flat == place and (not buffer.is_row_major or buffer.space is Space.LITERAL):
            return False
        indices.append(flat)
    return not any(isinstance(node, Masked) for node in nodes) and all(
        each == place or free.isdisjoint(each.variables()) for each in indices
    )


class _RowMajor(Rewriter):
    """Replace the variables of a nest, and the indices of its element by one place in a flat array."""

    def __init__(self, variables: Mapping[Variable, Variable], place: Index) -> None:
        super().__init__()
        self.variables, self.place = variables, place

    def items(self, items: Sequence[Item]) -> list[Item]:
        """Rewrite items and the variables of loops."""
        return [
            replace(item, variable=self.variables[item.variable], body=self.items(item.body))
            if isinstance(item, Loop)
            else item.map(self)
            for item in items
        ]

    def indices(self, indices: Indices) -> Indices:
        """Place the element of an iteration along the last axis, whose stride is 1."""
        if self.variables.keys().isdisjoint(v for each in indices for v in each.variables()):
            return indices
        return *(ZERO for _ in indices[1:]), self.place

    def index(self, old: Index) -> Index:
        """Replace the number of the iteration."""
        return old if self.variables.keys().isdisjoint(old.variables()) else self.place
