"""Steps: the kernels of a function in order, with the loops and branches around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catgrad.loops.ir.index import Variable
from catgrad.loops.ir.nest import Access, Kernel
from catgrad.loops.ir.scalar import Buffer, Load
from catgrad.programs.program import Function


@dataclass(eq=False)
class For:
    """Kernels run for each value of a variable, or from the last to the first."""

    variable: Variable
    backwards: bool
    body: list[Step]

    @property
    def reads(self) -> list[Access]:
        """The elements read within."""
        return [access for step in self.body for access in step.reads]

    @property
    def writes(self) -> list[Access]:
        """The elements written within."""
        return [access for step in self.body for access in step.writes]


@dataclass(eq=False)
class If:
    """Kernels of which the first run where a condition holds, and the others where it does not."""

    condition: Load
    parts: tuple[list[Step], list[Step]]

    @property
    def reads(self) -> list[Access]:
        """The elements read within."""
        within = [access for part in self.parts for step in part for access in step.reads]
        return [(self.condition.buffer, self.condition.indices), *within]

    @property
    def writes(self) -> list[Access]:
        """The elements written within."""
        return [access for part in self.parts for step in part for access in step.writes]


Step = Kernel | For | If
"""A kernel, or a loop or branch of kernels."""


@dataclass
class Lowered:
    """A function as steps, and the arrays that are its arguments and its results."""

    function: Function
    steps: list[Step]
    arguments: list[Buffer]
    results: list[Buffer]


def decisive(steps: Sequence[Step]) -> set[Buffer]:
    """The arrays that decide which part of a branch runs, which are read outside of kernels."""
    found: set[Buffer] = set()
    for step in steps:
        if isinstance(step, For):
            found |= decisive(step.body)
        elif isinstance(step, If):
            found |= {step.condition.buffer}.union(*map(decisive, step.parts))
    return found


def kernels(steps: Sequence[Step]) -> list[Kernel]:
    """All kernels, those in loops and branches included, in order."""
    found: list[Kernel] = []
    for step in steps:
        if isinstance(step, For):
            found += kernels(step.body)
        elif isinstance(step, If):
            found += [kernel for part in step.parts for kernel in kernels(part)]
        else:
            found.append(step)
    return found
