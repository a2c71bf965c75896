"""Tables in segments: runs of equal layers, whose arrays have names that differ in their number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from catgrad.programs.ports import Role
from catgrad.programs.program import Program
from catgrad.programs.stacks import layers_of
from catgrad.terms.state import Slot
from catgrad.types import NdArrayType


class Run(NamedTuple):
    """Adjacent arrays of a table: some equal `layers` of a name, with `width` arrays each."""

    start: int
    width: int
    layers: int
    name: str = ""

    @property
    def end(self) -> int:
        """The position after the last array."""
        return self.start + self.width * self.layers

    def column(self, place: int) -> range:
        """Return the positions of one array of each layer."""
        return range(self.start + place, self.end, self.width)


class Segment(NamedTuple):
    """Slots of a table: names and types; with `numbers`, the names have `{}` for the number of a layer."""

    slots: tuple[tuple[str, NdArrayType], ...]
    numbers: range = range(0)


def segments_of(program: Program, table: Role) -> list[Segment]:
    """Divide a table of a program into its runs of layers and the slots between these."""
    slots = program.tables.get(table, ())
    order = {slot.name: k for k, slot in enumerate(slots)}
    every = layers_of(program, table)
    runs = [Run(order[x.arrays[0][0]], len(x.members), x.count, x.name) for x in every]
    return [*segments(slots, sorted(runs))]


def segments(slots: Sequence[Slot], runs: Sequence[Run]) -> Iterator[Segment]:
    """Divide a table into its runs of layers with numbers in their names, and the slots between these."""
    done = 0
    for run in runs:
        if found := patterns([slots[k].name for k in run.column(j)] for j in range(run.width)):
            if run.start > done:
                yield Segment(tuple((s.name, s.type) for s in slots[done : run.start]))
            names, numbers = found
            types = (slot.type for slot in slots[run.start :][: run.width])
            yield Segment(tuple(zip(names, types, strict=True)), numbers)
            done = run.end
    if done < len(slots) or not slots:
        yield Segment(tuple((slot.name, slot.type) for slot in slots[done:]))


def patterns(columns: Iterable[Sequence[str]]) -> tuple[list[str], range] | None:
    """Return the names of each array of equal layers as a pattern, if all have the same numbers."""
    found = [*map(pattern, columns)]
    numbers = {each[1] if each else range(0) for each in found}
    if len(numbers) != 1 or not all(numbers):
        return None
    return [each[0] for each in found if each], numbers.pop()


def pattern(names: Sequence[str]) -> tuple[str, range] | None:
    """Return names that differ in one number, as a pattern with `{}` and the range of numbers, or None."""
    every = [re.split(r"(\d+)", name) for name in names]
    differing = [k for k, words in enumerate(zip(*every, strict=False)) if len({*words}) > 1]
    if len({*map(len, every)}) > 1 or len(differing) != 1 or not every[0][differing[0]].isdecimal():
        return None
    [place] = differing
    words = [each[place] for each in every]
    first, second = map(int, words[:2])
    numbers = range(first, first + len(words) * (second - first), (second - first) or 1)
    if words != [*map(str, numbers)]:
        return None
    return "".join([*every[0][:place], "{}", *every[0][place + 1 :]]), numbers
