"""Analysis of dense stores: which buffers a kernel fills from the first element to the last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from math import copysign

from catgrad.dims import Size
from catgrad.loops.ir.index import Index, Variable
from catgrad.loops.ir.nest import Item, Loop, Statement, Store
from catgrad.loops.ir.scalar import Buffer, Number, Space

Access = tuple[Store, tuple[Variable, ...]]
"""A store, and the variables of the loops around it."""


def densely_stored(items: Sequence[Item]) -> Iterator[Buffer]:
    """Find the buffers that stores fill in row-major order, each element once, before any other access."""
    stores: dict[Buffer, list[Access]] = {}
    others: set[Buffer] = set()
    for s, around in _with_loops(items, ()):
        others.update(buffer for buffer, _ in s.reads if buffer not in stores)  # old elements are read
        for buffer, _ in s.writes:
            if (
                isinstance(s, Store)
                and buffer.order
                and buffer.alias is None
                and buffer.space is not Space.ARGUMENT
            ):
                stores.setdefault(buffer, []).append((s, around))
            else:
                others.add(buffer)
    for buffer, accesses in stores.items():
        if buffer not in others and _is_dense(buffer, accesses):
            yield buffer


def initialised(buffers: Iterable[Buffer], items: Sequence[Item]) -> dict[Buffer, Sequence[Item]]:
    """Find the buffers that items set to zero first, with these items, which write no other buffer."""
    zeros = {buffer: first for buffer in buffers if (first := _zeroing(buffer, items))}
    while others := [
        b for b, first in zeros.items() if any(w not in zeros for i in first for w, _ in i.writes)
    ]:
        for buffer in others:
            del zeros[buffer]
    return zeros


def _zeroing(buffer: Buffer, items: Sequence[Item]) -> Sequence[Item]:
    """List the items that set all of an array to zero before any other access; none if the first do not."""
    accesses = (item for item in items if any(b is buffer for b, _ in (*item.reads, *item.writes)))
    zeros = list(takewhile(_stores_zeros, accesses))
    return zeros if buffer in densely_stored(zeros) else []


def _stores_zeros(item: Item) -> bool:
    """Tell whether an item does nothing but to set elements to zero."""
    if isinstance(item, Loop):
        return all(map(_stores_zeros, item.body))
    if not isinstance(item, Store) or not isinstance(item.scalar, Number):
        return False
    value = item.scalar.constant.value
    return value == 0 and copysign(1, value) > 0


def _with_loops(
    items: Sequence[Item], around: tuple[Variable, ...]
) -> Iterator[tuple[Statement, tuple[Variable, ...]]]:
    for item in items:
        if isinstance(item, Loop):
            yield from _with_loops(item.body, (*around, item.variable))
        else:
            yield item, around


def _is_dense(buffer: Buffer, accesses: Sequence[Access]) -> bool:
    """Prove that stores in one nest go on by one element each, from the first to the last."""
    loops = accesses[0][1]
    stride: Size = len(accesses)
    terms = list[tuple[Variable, Size]]()
    for variable in reversed(loops):
        terms.append((variable, stride))
        stride = stride * variable.extent
    if stride != buffer.size or any(around != loops for _, around in accesses):
        return False
    terms.sort(key=lambda term: term[0].number)
    return all(buffer.flat(s.indices) == Index(tuple(terms), n) for n, (s, _) in enumerate(accesses))
