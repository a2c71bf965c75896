"""Partition of arrays among devices: data parallelism, fully sharded, or tensor parallelism.

Fully sharded is ZeRO-3 (Rajbhandari et al. 2020); tensor parallelism is Megatron's (Shoeybi et al. 2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from catgrad.backend import Backend
from catgrad.errors import OptionError
from catgrad.options import require_choices, require_kinds
from catgrad.programs.partition import ROWS, Shares, axes_of_layers, largest_axis
from catgrad.programs.ports import TABLES, Kind, Port, Role
from catgrad.programs.program import Function, Program

from .. import python


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

    @property
    def required(self) -> tuple[Kind, ...]:
        """The function whose sums say which axes of layers can be shared."""
        return (Kind.LOSS,) if self.shard == "tensor" else ()

    def __post_init__(self) -> None:
        require_kinds(self)
        require_choices(self, {"shard": ("", "data", "fsdp", "tensor")})
        if self.devices < 1:
            raise OptionError("devices must be at least 1", f"it is {self.devices}", "write their number")


def partitioned(backend: Backend, program: Program) -> Program:
    """Say of each port which axis devices share. Raises: OptionError if they can share no layer."""
    options = backend.options
    layers = axes_of_layers(program.functions, options.devices) if options.shard == "tensor" else {}
    return program.map(lambda f: _partitioned(f, options, layers)) if options.shard else program


def template_context(backend: Backend, program: Program) -> Mapping[str, object]:
    """Return the variables of the templates: statements, and the axes that devices share, by array."""
    functions = [f for f in program.functions if not f.kind.is_initial] if backend.options.shard else []
    every = [port for f in functions for port in (*f.inputs, *f.outputs)]
    shares = {port.label: port.split for port in every if port.split is not None}
    ports = {f.name: [[port.label for port in side] for side in (f.inputs, f.outputs)] for f in functions}
    return {**python.template_context(backend, program), "shares": shares, "ports": ports}


def _partitioned(function: Function, options: Options, layers: Shares) -> Function:
    every = (*function.inputs, *function.outputs)
    batch = next((port.type.shape[0] for port in every if port.role in ROWS and port.type.rank), None)

    def split(port: Port) -> Port:
        if options.shard == "tensor":
            return replace(port, split=_axis_of_layers(port, layers))
        if port.role in ROWS:
            return replace(port, split=port.type.shape.index(batch) if batch in port.type.shape else None)
        return replace(port, split=largest_axis(port, options.devices) if options.shard == "fsdp" else None)

    return replace(
        function, inputs=tuple(map(split, function.inputs)), outputs=tuple(map(split, function.outputs))
    )


def _axis_of_layers(port: Port, layers: Shares) -> int | None:
    """Return the axis of a table's array, of its gradient, or of state that has its name and shape."""
    if port.role not in (*TABLES, Role.GRADIENT):
        return None
    names = (name for name in layers if port.name == name or port.name.endswith(f".{name}"))
    return next((layers[name] for name in names if layers[name] < port.type.rank), None)
