"""Costs of a task: operations, bytes moved and bytes communicated of each of its terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catgrad.dims import Size
from catgrad.errors import unknown
from catgrad.functors import Expand
from catgrad.learn.options import check_integer
from catgrad.programs.cost import Cost, costs, total
from catgrad.programs.passes import erase_barriers, optimise
from catgrad.programs.passes.layers import with_innermost_names
from catgrad.programs.peak_memory import workspaces
from catgrad.programs.ports import Kind, Role
from catgrad.programs.program import Function, lower, nest
from catgrad.tables import Table, Tabular
from catgrad.types import NdArrayType, symbols

if TYPE_CHECKING:
    from catgrad.learn.task import Task

COUNTED = (Kind.PREDICT, Kind.LOSS, Kind.GRADS, Kind.UPDATE, Kind.STEP)
"""The functions of a training, whose costs are shown."""


@dataclass(frozen=True, repr=False)
class Costs(Tabular):
    """The cost of each function of a task, and its workspace in bytes if all sizes are known.

    `communicated` are the bytes of loss and gradients that each process of data-parallel training has
    averaged over all in a step, between `grads` and `update`. It prints as a table.
    """

    functions: Mapping[str, Cost]
    workspaces: Mapping[str, int | None]
    communicated: Size

    @property
    def table(self) -> Table:
        """The costs as a table."""
        header = ("function", "FLOPs", "in products", "bytes moved", "communicated", "workspace")
        rows = [
            (name, cost.flops, cost.products, cost.bytes, self._communicated(name), self.workspaces[name])
            for name, cost in self.functions.items()
        ]
        return Table(header, rows, notes=(SIZES_MISSING,) if None in self.workspaces.values() else ())

    def _communicated(self, function: str) -> Size:
        return self.communicated if function in (Kind.GRADS, Kind.STEP) else 0


SIZES_MISSING = "workspace: give all sizes, as in batch=32"


def task_costs(task: Task, **sizes: int) -> Costs:
    """Count the operations and bytes of each function of a task; symbols without a size stay symbols.

    Raises: UnknownName for a size that no input has; OptionError unless it is an integer of at least 0
    """
    functions = {str(kind): primitives(task, kind, sizes) for kind in COUNTED if kind in task.kinds}
    roles = (Role.GRADIENT, Role.LOSS) if Kind.GRADS in functions else ()
    gradients = [port for role in roles for port in task.ports(role)]
    return Costs(
        {name: total(costs(function)) for name, function in functions.items()},
        {name: greatest(workspace(function)) for name, function in functions.items()},
        sum((port.type.bytes for port in gradients), 0),
    )


def primitives(task: Task, kind: Kind, sizes: Mapping[str, int]) -> Function:
    """Lower a function of a task to optimised primitives at these sizes, with loops and branches nested."""
    require_sizes((*task.inputs, *task.targets), sizes)
    term, inputs, _ = task.entry(kind)
    function = lower(Expand()(term), str(kind), [port.label for port in inputs])
    return prepared(with_innermost_names(function.substitute(sizes)))


def require_sizes(types: tuple[NdArrayType, ...], sizes: Mapping[str, int]) -> None:
    """Raise UnknownName for a size that no type has; OptionError unless each is an integer of at least 0."""
    known = symbols(types)
    for name, size in sizes.items():
        if name not in known:
            raise unknown("size", name, known, "catgrad summary")
        check_integer(name, size, 0)


def prepared(function: Function) -> Function:
    """Optimise a function and its loops and branches, and nest these."""
    return nest(erase_barriers(optimise(function)), prepared)


def workspace(function: Function) -> list[int | None]:
    """Return the bytes alive during each operation, without arguments; None for symbolic sizes."""
    is_symbolic = symbols(tuple(filter(None, function.types)))
    return [None] * len(function.body) if is_symbolic else [*workspaces(function)]


def greatest(found: Sequence[int | None]) -> int | None:
    """Return the greatest number, 0 of none, and None if one is unknown."""
    return None if None in found else max(filter(None, found), default=0)
