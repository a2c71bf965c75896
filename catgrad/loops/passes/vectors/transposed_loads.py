"""Transposed loads: elements that are side by side along an outer loop, and far apart along an inner one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catgrad.dims import Size, product
from catgrad.loops.ir.index import Index, Variable
from catgrad.loops.ir.nest import Accumulate, Item, Loop, Store, loops, size_hint
from catgrad.loops.ir.scalar import Buffer, Load


@dataclass(frozen=True)
class Transposed:
    """A load in a loop, in whose iterations its elements are side by side, but across the rows within them.

    `inner` are the variables within the loop that it depends on, the innermost last.
    """

    load: Load
    inner: tuple[Variable, ...]

    @property
    def width(self) -> int:
        """Count the elements that an iteration reads."""
        return size_hint(product(tuple(v.extent for v in self.inner)))

    @property
    def key(self) -> tuple[Buffer, Index, tuple[tuple[Size, Size], ...]]:
        """Identify the elements, whatever the inner variables are."""
        place = self.load.buffer.flat(self.load.indices)
        fixed = Index(tuple(term for term in place.terms if term[0] not in self.inner), place.constant)
        return self.load.buffer, fixed, tuple((v.extent, place.coefficient(v)) for v in self.inner)


def transposed_loads(loop: Loop, line: int) -> list[Transposed]:
    """Find the loads of a loop whose elements of a row are `line` elements apart, at least."""
    inside = list(loops(loop.body))
    if any(each.conditions or not isinstance(each.variable.extent, int) for each in inside):
        return []  # loads may be of no element
    if any(each.variable.step != 1 for each in (loop, *inside)):
        return []
    if not all(isinstance(s, Store | Accumulate) for s in loop.statements):
        return []
    changed = {buffer.home for buffer, _ in loop.writes}
    every = (each for row in inside for each in _across(loop, row, line))
    return [each for each in every if each.load.buffer.home not in changed]


def _across(loop: Loop, row: Loop, line: int) -> Iterator[Transposed]:
    """Yield those of an innermost loop."""
    if any(isinstance(item, Loop) for item in row.body):
        return
    within = {each.variable for each in loops(loop.body)}
    for load in dict.fromkeys(load for s in row.body for load in _unmasked(s)):
        place = load.buffer.flat(load.indices)
        strides = {atom: stride for atom, stride in place.terms if isinstance(atom, Variable)}
        inner = sorted(within & strides.keys(), key=lambda v: (v is row.variable, -size_hint(strides[v])))
        is_affine, far = len(strides) == len(place.terms), size_hint(strides.get(row.variable, 0)) >= line
        if is_affine and far and strides.get(loop.variable) == 1 and not load.buffer.is_of_kernel:
            yield Transposed(load, tuple(inner))


def _unmasked(s: Item) -> Iterator[Load]:
    """Yield the elements that a statement loads in any case."""
    stack = [s.scalar] if isinstance(s, Store | Accumulate) else []
    while stack:
        node = stack.pop()
        if isinstance(node, Load):
            yield node
        stack.extend(node.always)
