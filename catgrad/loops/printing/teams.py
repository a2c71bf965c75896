"""Numberings of the threads of a team: nests that distribute iterations alike share their variables."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from math import prod

from catgrad.loops.ir.axis import Axis
from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import Item, Let, Loop, size_hint

LANE = "lane"
"""Name of the number of a thread in its warp."""

Numbering = tuple[Variable, ...]
"""The variables that are the digits of a thread's number."""


def chain(loop: Loop, ends: Container[Loop | None]) -> tuple[Numbering, list[Item], Loop]:
    """Collect the loops of one axis that are nested with registers between them, until one of the `ends`.

    Returns their variables, the definitions of the registers, and the innermost loop.
    """
    variables, lets, axis = [loop.variable], list[Item](), loop.axis
    while not (loop.conditions or loop in ends):
        *before, last = loop.body
        if not (isinstance(last, Loop) and last.axis is axis and all(isinstance(s, Let) for s in before)):
            break
        variables.append(last.variable)
        lets, loop = [*lets, *before], last
    return tuple(variables), lets, loop


def numberings(items: Sequence[Item], threads: int, ends: Container[Loop | None]) -> Iterator[Numbering]:
    """Find the numberings of all threads of a team by several variables, not those of a team within."""
    for item in items:
        if isinstance(item, Loop) and item.axis is Axis.THREAD:
            variables, _, _ = chain(item, ends)
            if len(variables) > 1 and _number_all(variables, threads):
                yield variables
        elif isinstance(item, Loop) and not item.axis.has_team:
            yield from numberings(item.body, threads, ends)


def are_lanes(variables: Numbering, team: Axis, threads: int) -> bool:
    """Tell whether a variable is the number of a thread in its warp."""
    first, *others = variables
    return team is Axis.WARP and not others and first.step == 1 and first.extent == threads


def _number_all(variables: Numbering, threads: int) -> bool:
    whole = all(v.step == 1 and isinstance(v.extent, int) for v in variables)
    return whole and prod(size_hint(v.extent) for v in variables) == threads
