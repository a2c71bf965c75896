"""Choice of the axes that devices share: the largest, or those of layers by greedy choice among common axes.

Sharing the largest axes of all parameters is ZeRO-3 (Rajbhandari et al. 2020), sharing layers is tensor
parallelism (Megatron, Shoeybi et al. 2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catgrad.dims import Size
from catgrad.errors import OptionError
from catgrad.programs.axes import Axis, CommonAxes, reductions
from catgrad.programs.ports import TABLES, Kind, Port, Role
from catgrad.programs.program import Function

ROWS = (Role.INPUT, Role.TARGET, Role.OUTPUT, Role.INPUT_COTANGENT, Role.OUTPUT_COTANGENT)
"""The roles of arrays with a row for each example."""

Shares = Mapping[str, int]
"""The axis that devices share, of each array by its label."""


def largest_axis(port: Port, devices: int) -> int | None:
    """Return the largest axis that devices can share, of an array of tables or a gradient."""
    if port.role not in (*TABLES, Role.GRADIENT):
        return None
    shape = [*enumerate(port.type.shape)]
    sizes = [(n, -axis) for axis, n in shape if isinstance(n, int) and n > 1 and n % devices == 0]
    return -max(sizes)[1] if sizes else None


def axes_of_layers(functions: Sequence[Function], devices: int) -> Shares:
    """Choose axes of parameters that layers have in common, those along which least is reduced first.

    A parameter has at most one. What each device computes of a hidden layer, of heads or of the vocabulary
    is then its own, and the sums along them, which the choice keeps few, are over all devices.
    """
    function = _model(functions)
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


def _model(functions: Sequence[Function]) -> Function:
    """Return the function that computes the loss, or else the first one with parameters."""
    loss = [f for f in functions if f.kind is Kind.LOSS]
    return next(f for f in (*loss, *functions) if f.taking(Role.PARAMETER) or f in loss)


def summed_along(function: Function, shares: Shares) -> Size:
    """Count the bytes of the results of a function's operations that sum or choose along shared axes."""
    axes = CommonAxes(function)
    ports = zip(function.arguments, function.inputs, strict=True)
    shared = {axes.find((value, shares[port.name])) for value, port in ports if port.name in shares}
    total: Size = 0
    for op, inputs, outputs in function.body:
        if any(axes.find((inputs[operand], axis)) in shared for operand, axis in reductions(op)):
            total = sum((function.types[value].bytes for value in outputs), total)
    return total
