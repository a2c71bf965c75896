"""Grouped kernels as functions: a block looks up its arguments in a table, but for those that all have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from catgrad.loops.ir.nest import size_hint
from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.ir.steps import For, Group
from catgrad.loops.printing.calls import KernelText, Table
from catgrad.loops.printing.interface import Interface
from catgrad.loops.printing.lines import CallEntry


@dataclass(frozen=True)
class GroupText:
    """A grouped kernel, the function that it runs, and which arrays are common to all entries."""

    kernel: KernelText
    part: KernelText
    common: tuple[bool, ...]

    def own(self, arguments: Sequence[str]) -> tuple[str, ...]:
        """Return those of the function's arguments that an entry has."""
        numbers = len(arguments) - len(self.common)
        shared = (*[False] * numbers, *self.common)
        return tuple(x for x, is_common in zip(arguments, shared, strict=True) if not is_common)


def common_arrays(group: Group, interfaces: Sequence[Interface]) -> tuple[bool, ...]:
    """Tell of each array that a function is given whether it is the same in all entries of a group."""
    rows: set[Buffer] = {row for step in group.body if isinstance(step, For) for row in step.rows}
    given = zip(*(interface.given for interface in interfaces), strict=True)
    return tuple(len({b.home for b in same}) == 1 and rows.isdisjoint(same) for same in given)


def row_count(group: Group) -> int:
    """Count the entries of a group's table."""
    return sum(
        size_hint(step.variable.extent) * len(step.body) if isinstance(step, For) else 1
        for step in group.body
    )


def group_text(name: str, part: KernelText, common: tuple[bool, ...], rows: int) -> GroupText:
    """Print the kernel that runs a function for each entry of a table."""
    arrays = [*zip(part.parameters, common, strict=True)]
    table = Table(rows, part.sizes, part.streams, tuple(x for x, is_common in arrays if not is_common))
    integers = ((name, False, False) for name in (*part.sizes, *part.streams))
    arguments = (*integers, *((x.name, is_common, x.is_aligned) for x, is_common in arrays))
    is_wide = part.launch is not None and part.launch.is_wide
    kernel = replace(
        part,
        name=name,
        comments=(),
        symbols=(),
        around=(),
        streams=(),
        parameters=tuple(x for x, is_common in arrays if is_common),
        lines=(CallEntry(part.name, part.takes_block, arguments, is_wide),),
        is_part=False,
        table=table,
    )
    return GroupText(kernel, part, common)
