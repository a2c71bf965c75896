"""Partition of arrays among devices: data parallelism, fully sharded, or tensor parallelism.

Fully sharded is ZeRO-3 (Rajbhandari et al. 2020); tensor parallelism is Megatron's (Shoeybi et al. 2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from catgrad.backend import Backend, statements
from catgrad.errors import OptionError
from catgrad.options import require_choices, require_kinds
from catgrad.programs.axes import Axis, CommonAxes
from catgrad.programs.ports import TABLES, Kind, Port, Role
from catgrad.programs.program import Function, Program

ROWS = (Role.INPUT, Role.TARGET, Role.OUTPUT, Role.INPUT_COTANGENT, Role.OUTPUT_COTANGENT)
"""The roles of arrays with a row for each example."""

Shares = Mapping[str, int]
"""The axis that devices share, of each array by its label."""


@dataclass(frozen=True)
class Options:
    """Options of the target jax: how the devices of a mesh share the arrays of a function.

    With `shard` data, they share the examples, and each has all parameters. With fsdp they also share each
    parameter, its gradient and its state, along the largest axis that is a multiple of the number `devices`.
    With tensor they have all examples, and share the axes of parameters along which layers are multiplied:
    heads, hidden layers, the vocabulary.

    Raises: OptionError for another value
    """

    shard: str = ""
    devices: int = 1

    def __post_init__(self) -> None:
        require_kinds(self)
        require_choices(self, {"shard": ("", "data", "fsdp", "tensor")})
        if self.devices < 1:
            raise OptionError("devices must be at least 1", f"it is {self.devices}", "write their number")


def partitioned(backend: Backend, program: Program) -> Program:
    """Say of each port which axis devices share. Raises: OptionError if they can share no layer."""
    options = backend.options
    layers = _axes_of_layers(program, options.devices) if options.shard == "tensor" else {}
    return program.map(lambda f: _partitioned(f, options, layers)) if options.shard else program


def template_context(backend: Backend, program: Program) -> Mapping[str, Any]:
    """Return the variables of the templates: statements, and the axes that devices share, by array."""
    functions = [f for f in program.functions if not f.kind.is_initial] if backend.options.shard else []
    every = [port for f in functions for port in (*f.inputs, *f.outputs)]
    shares = {port.label: port.split for port in every if port.split is not None}
    ports = {f.name: [[port.label for port in side] for side in (f.inputs, f.outputs)] for f in functions}
    return {**statements(backend, program), "shares": shares, "ports": ports}


def _partitioned(function: Function, options: Options, layers: Shares) -> Function:
    every = (*function.inputs, *function.outputs)
    batch = next((port.type.shape[0] for port in every if port.role in ROWS and port.type.rank), None)

    def split(port: Port) -> Port:
        if options.shard == "tensor":
            return replace(port, split=_axis_of_layers(port, layers))
        if port.role in ROWS:
            return replace(port, split=port.type.shape.index(batch) if batch in port.type.shape else None)
        return replace(port, split=_largest(port, options.devices) if options.shard == "fsdp" else None)

    return replace(
        function, inputs=tuple(map(split, function.inputs)), outputs=tuple(map(split, function.outputs))
    )


def _largest(port: Port, devices: int) -> int | None:
    """Return the largest axis that devices can share, of an array of tables or a gradient."""
    if port.role not in (*TABLES, Role.GRADIENT):
        return None
    shape = [*enumerate(port.type.shape)]
    sizes = [(n, -axis) for axis, n in shape if isinstance(n, int) and n > 1 and n % devices == 0]
    return -max(sizes)[1] if sizes else None


def _axes_of_layers(program: Program, devices: int) -> Shares:
    """Choose axes of parameters that layers have in common, those along which least is reduced first.

    A parameter has at most one. What each device computes of a hidden layer, of heads or of the vocabulary
    is then its own, and the sums along them, which the choice keeps few, are over all devices.
    """
    function = _model(program)
    axes, every = CommonAxes(function), [*zip(function.arguments, function.inputs, strict=True)]
    sizes, of_data = axes.sizes(), set[Axis]()
    places: dict[Axis, list[tuple[str, int]]] = {}
    for value, port in every:
        for n in range(port.type.rank):
            axis = axes.find((value, n))
            if port.role in ROWS:
                of_data.add(axis)
            elif port.role in TABLES:
                places.setdefault(axis, []).append((port.name, n))
    found: dict[str, int] = {}
    for axis in sorted(places, key=lambda axis: axes.reductions[axis]):
        names = [name for name, _ in places[axis]]
        fits = all(isinstance(n, int) and n % devices == 0 for n in sizes.get(axis, ()))
        is_free = found.keys().isdisjoint(names) and len({*names}) == len(names)
        if fits and is_free and axes.reductions[axis] and axis not in of_data:
            found |= places[axis]
    if not found:
        raise OptionError(
            "devices that share layers must divide an axis of parameters that is summed over",
            f"there is none of which the size is a multiple of {devices}",
            "choose another number of devices, or shard='fsdp'",
        )
    return found


def _model(program: Program) -> Function:
    """Return the function that computes the loss, or else the first one with parameters."""
    loss = [f for f in program.functions if f.kind is Kind.LOSS]
    return next(f for f in (*loss, *program.functions) if f.taking(Role.PARAMETER) or f in loss)


def _axis_of_layers(port: Port, layers: Shares) -> int | None:
    """Return the axis of a table's array, of its gradient, or of state that has its name and shape."""
    if port.role not in (*TABLES, Role.GRADIENT):
        return None
    names = (name for name in layers if port.name == name or port.name.endswith(f".{name}"))
    return next((layers[name] for name in names if layers[name] < port.type.rank), None)
