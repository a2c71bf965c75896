"""The memory of an emitted program on a microcontroller: workspace, flash and stack of its functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from catgrad.dims import Size
from catgrad.tables import Table, Tabular, spelled


@dataclass(frozen=True)
class Memory:
    """Bytes of a function: its workspace, code and constants in flash, and stack; None if unknown."""

    workspace: Size
    flash: int | None = None
    stack: int | None = None


@dataclass(frozen=True, repr=False)
class Footprint(Tabular):
    """The memory of each function, and the flash of all together, which share code.

    Flash is that of what a function calls, including libraries, linked for a machine. Stack bounds the
    longest chain of calls, without those of libraries. It prints as a table; `notes` name the machine, or
    what to install to compile for it.
    """

    functions: Mapping[str, Memory]
    flash: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> Table:
        """The bytes of each function, and of all."""
        header = ("function", "workspace", "flash", "stack")
        rows = [(name, each.workspace, each.flash, each.stack) for name, each in self.functions.items()]
        every = self.functions.values()
        total = ("all", _most(m.workspace for m in every), self.flash, _most(m.stack for m in every))
        return Table(header, rows, total, self.notes)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The table in words, with its notes."""
        return (
            *(
                f"{name}: workspace {spelled(each.workspace)}, flash {spelled(each.flash)}, "
                f"stack {spelled(each.stack)} bytes"
                for name, each in self.functions.items()
            ),
            *self.notes,
        )


def _most(sizes: Iterable[Size | None]) -> int | None:
    """Return the greatest number; None if one is unknown, or symbolic."""
    found = [*sizes]
    numbers = [size for size in found if isinstance(size, int)]
    return max(numbers, default=0) if len(numbers) == len(found) else None
