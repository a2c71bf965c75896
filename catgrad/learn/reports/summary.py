"""Summaries: parameters, operations and memory of a task, by layer and in total, at any batch size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from catgrad.dims import Size
from catgrad.footprint import Footprint
from catgrad.learn.options import check_integer
from catgrad.learn.reports.costs import SIZES_MISSING, greatest, primitives, workspace
from catgrad.programs.cost import costs
from catgrad.programs.passes.layers import layer_of, layers
from catgrad.programs.ports import Kind
from catgrad.tables import Cell, Table, Tabular
from catgrad.types import NdArrayType

if TYPE_CHECKING:
    from catgrad.learn.task import Task


@dataclass(frozen=True)
class Layer:
    """A layer in numbers: elements of its parameters, bytes of these and of its state, and its operations.

    `output` is the type of its last value, None without operations. `frozen` are the bytes of parameters that
    no step changes. `state` are the arrays of the optimiser for its parameters, and its own buffers. `flops`
    are those of one prediction. `workspace` is the greatest sum of bytes of values alive at once while it
    runs, None for symbolic sizes.
    """

    name: str
    output: NdArrayType | None = None
    parameters: Size = 0
    bytes: Size = 0
    frozen: Size = 0
    state: Size = 0
    flops: Size = 0
    workspace: int | None = 0


@dataclass(frozen=True, repr=False)
class Summary(Tabular):
    """The layers of a task in the order of its operations, and their total; it prints as a table.

    With the `footprint` of an emitted program, its memory is shown below the table, in place of the workspace
    of single operations.
    """

    layers: tuple[Layer, ...]
    total: Layer
    footprint: Footprint | None = None

    @property
    def table(self) -> Table:
        """The summary as a table."""
        columns = {key: name for key, name in COLUMNS.items() if self._has(key)}
        notes = (SIZES_MISSING,) if "workspace" in columns and self.total.workspace is None else ()

        def cells(layer: Layer) -> tuple[Cell, ...]:
            return (layer.name, str(layer.output or ""), *(getattr(layer, key) for key in columns))

        return Table(
            ("layer", "output", *columns.values()),
            [*map(cells, self.layers)],
            cells(self.total),
            self.footprint.sentences if self.footprint else notes,
            texts=2,
        )

    def _has(self, column: str) -> bool:
        """Tell whether a column is shown: that of frozen bytes if there are any."""
        if column == "workspace":
            return self.footprint is None
        return column != "frozen" or self.total.frozen != 0


COLUMNS = {
    "parameters": "parameters",
    "bytes": "bytes",
    "frozen": "frozen",
    "state": "state",
    "flops": "FLOPs",
    "workspace": "workspace",
}
"""The numbers of a layer, and their headings."""


def task_summary(task: Task, depth: int | None = None, **sizes: int) -> Summary:
    """Count parameters, operations and bytes of a task, by layer and in total.

    An operation belongs to the layer that it leads to, the one whose label comes next, and an activation to
    the one before it. `depth` merges layers with as many equal first names. Symbols without a size stay
    symbols.

    Raises: UnknownName for a size that no input has; OptionError if a size or depth is no integer
    """
    if depth is not None:
        check_integer("depth", depth, 1)
    grouped: dict[str, list[Layer]] = {}
    for part in (*_operations(task, sizes), *_arrays(task)):
        name = ".".join(part.name.split(".")[:depth]) or f"({task.name})"
        grouped.setdefault(name, []).append(part)
    found = tuple(_merged(name, parts) for name, parts in grouped.items())
    total = _merged("total", [replace(layer, output=None) for layer in found])
    return Summary(found, total)


def _operations(task: Task, sizes: dict[str, int]) -> list[Layer]:
    """Return the operations of a prediction as parts of layers."""
    function = primitives(task, Kind.PREDICT, sizes)
    every = zip(layers(function), function.body, costs(function), workspace(function), strict=True)
    return [
        Layer(name, function.types[apply.outputs[-1]], flops=cost.flops, workspace=alive)
        for name, apply, cost, alive in every
    ]


def _arrays(task: Task) -> list[Layer]:
    """Return the arrays of the tables as parts of layers."""
    return [
        *(
            Layer(
                layer_of(slot.name),
                parameters=slot.type.size,
                bytes=slot.type.bytes,
                frozen=slot.type.bytes if task.optimiser.is_frozen(slot) else 0,
                state=sum((moment.type.bytes for moment in moments), 0),
            )
            for slot, moments in task.moments.items()
        ),
        *(Layer("", state=slot.type.bytes) for slot in task.run_numbers),
        *(Layer(layer_of(slot.name), state=slot.type.bytes) for slot in task.buffers),
    ]


def _merged(name: str, parts: Sequence[Layer]) -> Layer:
    """Add the parts of a layer; its output is the last one."""
    return Layer(
        name,
        next((part.output for part in reversed(parts) if part.output), None),
        sum((part.parameters for part in parts), 0),
        sum((part.bytes for part in parts), 0),
        sum((part.frozen for part in parts), 0),
        sum((part.state for part in parts), 0),
        sum((part.flops for part in parts), 0),
        greatest([part.workspace for part in parts]),
    )
