"""Partition of arrays among devices: data parallelism, or fully sharded (ZeRO-3, Rajbhandari et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catgrad.backend import Backend, statements
from catgrad.errors import OptionError
from catgrad.options import require_choices, require_kinds
from catgrad.programs.ports import TABLES, Port, Role
from catgrad.programs.program import Function, Program

ROWS = (Role.INPUT, Role.TARGET, Role.OUTPUT, Role.INPUT_COTANGENT, Role.OUTPUT_COTANGENT)
"""The roles of arrays with a row for each example."""


@dataclass(frozen=True)
class Options:
    """Options of the target jax: how the devices of a mesh share the arrays of a function.

    With `shard` data, they share the examples, and each has all parameters. With fsdp they also share each
    parameter, its gradient and its state, along the largest axis that is a multiple of the number `devices`.

    Raises: OptionError for another value
    """

    shard: str = ""
    devices: int = 1

    def __post_init__(self) -> None:
        require_kinds(self)
        require_choices(self, {"shard": ("", "data", "fsdp")})
        if self.devices < 1:
            raise OptionError("devices must be at least 1", f"it is {self.devices}", "write their number")


def template_context(backend: Backend, program: Program) -> Mapping[str, Any]:
    """Return the variables of the templates: statements, and the axes that devices share, by array."""
    functions = [f for f in program.functions if not f.kind.is_initial] if backend.options.shard else []
    shares = {port.label: axis for f in functions for port, axis in _shared(f, backend.options)}
    ports = {f.name: [[port.label for port in side] for side in (f.inputs, f.outputs)] for f in functions}
    return {**statements(backend, program), "shares": shares, "ports": ports}


def _shared(function: Function, options: Options) -> list[tuple[Port, int]]:
    """List the arrays of a function that devices share, each with the axis that they split."""
    ports = (*function.inputs, *function.outputs)
    batch = next((port.type.shape[0] for port in ports if port.role in ROWS and port.type.rank), None)
    axes = ((port, _axis(port, batch, options)) for port in ports)
    return [(port, axis) for port, axis in axes if axis is not None]


def _axis(port: Port, batch: object, options: Options) -> int | None:
    shape = port.type.shape
    if port.role in ROWS:
        return shape.index(batch) if batch in shape else None
    if options.shard == "data" or port.role not in (*TABLES, Role.GRADIENT):
        return None
    sizes = {n: axis for axis, n in reversed([*enumerate(shape)]) if isinstance(n, int) and n > 1}
    return max(((n, axis) for n, axis in sizes.items() if n % options.devices == 0), default=(0, None))[1]
