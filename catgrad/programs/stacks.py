"""Stacks of equal layers in tables: arrays of structs, whose members lie one layer after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from catgrad.naming import layer_parts
from catgrad.ops.table import Stack
from catgrad.programs.ports import Role
from catgrad.programs.program import Program

Names = tuple[str, ...]


@dataclass(frozen=True)
class Layers:
    """A part of a table: `count` layers, each with the same `members` in one order.

    `arrays` has the dotted names of each member's arrays, by layer.
    """

    name: str
    members: Names
    arrays: tuple[Names, ...]

    @property
    def count(self) -> int:
        """Number of layers."""
        return len(self.arrays[0])


def layers_of(program: Program, table: Role) -> list[Layers]:
    """Find the layers of a table: arrays that loops take rows from, and that follow each other there."""
    order = {slot.name: k for k, slot in enumerate(program.tables.get(table, ()))}
    waiting = sorted(_disjoint(stacks_of(program, table)), key=lambda names: order[names[0]])
    found = []
    while waiting:
        first, width = waiting[0], order[waiting[0][1]] - order[waiting[0][0]]
        arrays, waiting = waiting[:width], waiting[width:]
        expected = [order[first[0]] + t * width + k for t in range(len(first)) for k in range(width)]
        places = [order[name] for layer in zip(*arrays, strict=False) for name in layer]
        alike = {*map(len, arrays)} == {len(first)} and all(map(layer_parts, arrays))
        if alike and places == expected:
            found.append(Layers(*_names(arrays), tuple(arrays)))
    return found


def _disjoint(stacks: Iterable[Names]) -> Iterator[Names]:
    """Yield stacks that do not overlap, the longest first: a loop may leave out the first layers."""
    taken = set[str]()
    for names in sorted(stacks, key=lambda names: -len(names)):
        if taken.isdisjoint(names):
            taken.update(names)
            yield names


def stacks_of(program: Program, table: Role) -> Iterable[Names]:
    """Return the names of the arrays of each stack that any function takes."""
    role = {Role.GRADIENT: Role.PARAMETER}
    found: dict[Names, None] = {}
    for function in program.functions:
        ports = dict(zip(function.arguments, function.inputs, strict=True))
        for each in function.body:
            read = [ports.get(value) for value in each.inputs] if isinstance(each.op, Stack) else [None]
            if all(port and role.get(port.role, port.role) is table for port in read):
                found[tuple(port.name for port in read if port)] = None
    return found


def name_of_layers(arrays: Sequence[Names]) -> str:
    """Return the name of layers with these arrays; that of others is `layer`."""
    return _names(arrays)[0] if all(map(layer_parts, arrays)) else "layer"


def _names(arrays: Sequence[Names]) -> tuple[str, Names]:
    """Name layers by the last words before their number that all arrays share, and members by the others."""
    parts = [*filter(None, map(layer_parts, arrays))]
    least = min(len(before) - (not after) for before, after in parts)
    shared = min(least, len([*_common(reversed(before) for before, _ in parts)]))
    first = parts[0][0]
    members = (".".join([*before[: len(before) - shared], *after]) for before, after in parts)
    return "_".join(first[len(first) - shared :]) or "layer", tuple(members)


def _common(lists: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the first words that lists have in common."""
    return (words[0] for words in takewhile(lambda words: len({*words}) == 1, zip(*lists, strict=False)))
