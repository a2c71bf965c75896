"""Communication of a training step on several devices: bytes of ring collectives (Patarasuk and Yuan 2009).

In a ring of N devices, each sends (N - 1)/N of an array to gather its parts on all, as much to add up arrays
and leave each device its part, and twice as much to add them up on all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from catgrad.dims import Size
from catgrad.errors import OptionError
from catgrad.learn.options import check_integer
from catgrad.learn.reports.costs import primitives
from catgrad.programs.partition import axes_of_layers, largest_axis, summed_along
from catgrad.programs.ports import Kind, Role
from catgrad.tables import Table, Tabular

if TYPE_CHECKING:
    from catgrad.learn.task import Task


@dataclass(frozen=True, repr=False)
class Communication(Tabular):
    """The bytes that a device sends in a training step, and keeps of the parameters, for each way of sharing.

    `passes` has the bytes of arrays that go through a ring, times how often they do; a way that finds no axes
    to share is missing, and `reasons` has why. It prints as a table.
    """

    devices: int
    passes: Mapping[str, Size]
    parameters: Mapping[str, Size]
    reasons: tuple[str, ...] = ()

    def sent(self, way: str) -> Size:
        """Return the bytes that each device sends: (N - 1)/N of those that pass, rounded up."""
        return -(-self.passes[way] * (self.devices - 1) // self.devices)

    @property
    def table(self) -> Table:
        """The ways as a table."""
        header = (f"shared by {self.devices} devices", "sent by each", "parameters on each")
        rows = [(way, self.sent(way), self.parameters[way]) for way in self.passes]
        return Table(header, rows, notes=self.reasons)


def communication(task: Task, devices: int, **sizes: int) -> Communication:
    """Count the bytes that devices send in a step if they share its examples, parameters, or layers.

    With `data`, gradients and loss are added up on all: 2 passes. With `fsdp`, parameters are gathered for
    the model and for its reverse, and gradients added up in parts: 3 passes of those with an axis to share.
    With `tensor`, the sums along shared axes of layers are added up: 2 passes of each.

    Raises: UnknownName for a size that no input has; OptionError for a number of devices below 1
    """
    check_integer("devices", devices, 1)
    every = task.ports(Role.PARAMETER)
    whole = sum((port.type.bytes for port in every), 0)
    loss = sum((port.type.bytes for port in task.ports(Role.LOSS)), 0)
    split = sum((port.type.bytes for port in every if largest_axis(port, devices) is not None), 0)
    passes = {"data": 2 * (whole + loss), "fsdp": 3 * split + 2 * (whole - split + loss)}
    parameters = {"data": whole, "fsdp": whole - split + split // devices}
    functions = [
        replace(primitives(task, kind, sizes), kind=kind, inputs=task.entry(kind)[1])
        for kind in (Kind.LOSS, Kind.GRADS)
    ]
    try:
        layers = axes_of_layers(functions, devices)
    except OptionError as error:
        return Communication(devices, passes, parameters, (f"tensor: {error}",))
    shared = sum((port.type.bytes for port in every if port.name in layers), 0)
    return Communication(
        devices,
        {**passes, "tensor": 2 * summed_along(functions[1], layers)},
        {**parameters, "tensor": whole - shared + shared // devices},
    )
