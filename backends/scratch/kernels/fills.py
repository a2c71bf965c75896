"""Lists that a script fills from the first item to the last, which is quicker than to replace items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from catgrad.loops.ir.index import Index, Variable
from catgrad.loops.ir.nest import Item, Loop, Statement, Store
from catgrad.loops.ir.scalar import Buffer, Space


def filled_in_order(items: Sequence[Item]) -> Iterator[Buffer]:
    """The arrays whose elements are defined one after the other, before any other statement."""
    found: dict[Buffer, list[tuple[Store, tuple[Variable, ...]]]] = {}
    others: set[Buffer] = set()
    for s, around in _with_loops(items, ()):
        for array, _ in s.reads:
            if array not in found:
                others.add(array)  # its old elements are read
        for array, _ in s.writes:
            if (
                isinstance(s, Store)
                and array.order
                and array.alias is None
                and array.space is not Space.ARGUMENT
            ):
                found.setdefault(array, []).append((s, around))
            else:
                others.add(array)
    for array, defines in found.items():
        if array not in others and _is_in_order(array, defines):
            yield array


def _with_loops(
    items: Sequence[Item], around: tuple[Variable, ...]
) -> Iterator[tuple[Statement, tuple[Variable, ...]]]:
    for item in items:
        if isinstance(item, Loop):
            yield from _with_loops(item.body, (*around, item.variable))
        else:
            yield item, around


def _is_in_order(array: Buffer, defines: Sequence[tuple[Store, tuple[Variable, ...]]]) -> bool:
    loops = defines[0][1]
    stride, wanted = len(defines), []
    for variable in reversed(loops):
        wanted.append((variable, stride))
        stride *= int(variable.extent)
    if stride != array.size or any(around != loops for _, around in defines):
        return False
    wanted.sort(key=lambda t: t[0].number)
    for number, (s, _) in enumerate(defines):
        place = array.flat(s.indices)
        if place != Index(tuple(wanted), number):
            return False
    return True
