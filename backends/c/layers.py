"""Outlining: the calls of a loop over layers become a function, which takes tables and arrays as structs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from catgrad.loops.ir.scalar import Buffer
from catgrad.loops.printing.calls import (
    Call,
    CallBranch,
    CallLayer,
    CallLine,
    CallLoop,
    CallProduct,
    LayerParameter,
)
from catgrad.loops.printing.functions import FunctionPrinter
from catgrad.programs.ports import Role

from ..kernels.structs import Member

MIN_CALLS = 3
"""The fewest calls that become a function."""

Places = Mapping[Buffer, tuple[Role, Member]]
"""The members of tables that arguments and results are."""


def outlined(
    lines: Sequence[CallLine],
    printer: FunctionPrinter,
    places: Places,
    more: Sequence[LayerParameter],
    fresh: Callable[[str], str],
) -> tuple[CallLine, ...]:
    """Replace the bodies of loops over layers of a table by calls of functions with `more` parameters."""
    found: list[CallLine] = []
    for line in lines:
        if isinstance(line, CallLoop) and _is_of_layers(line, places):
            line = replace(line, lines=(_layer(line, printer, places, more, fresh),))
        found.append(line)
    return tuple(found)


def functions_of(lines: Sequence[CallLine]) -> list[CallLayer]:
    """List the functions that loops call."""
    inside = [each for line in lines if isinstance(line, CallLoop) for each in line.lines]
    return [each for each in inside if isinstance(each, CallLayer)]


def _is_of_layers(line: CallLoop, places: Places) -> bool:
    """Tell whether a loop over layers of a table is worth a function, and cannot fail."""
    if line.tables or _struct(line, places) is None:
        return False
    every = [*_every(line.lines)]
    return len(every) >= MIN_CALLS and not any(
        isinstance(each, CallProduct) or (isinstance(each, Call) and each.checks) for each in every
    )


def _layer(
    loop: CallLoop,
    printer: FunctionPrinter,
    places: Places,
    more: Sequence[LayerParameter],
    fresh: Callable[[str], str],
) -> CallLayer:
    changed = {places[buffer][0] for buffer, changes in loop.touched.items() if changes and buffer in places}
    is_update = bool(changed.difference({Role.GRADIENT}))
    phase = "reverse" if loop.backwards else "update" if is_update else "forward"
    name = f"{printer.function.name}_{_struct(loop, places)}"
    name = fresh(name if printer.function.kind.is_initial else f"{name}_{phase}")
    return CallLayer(name, (*_parameters(loop, printer, places, changed), *more), loop.lines)


def _parameters(
    loop: CallLoop, printer: FunctionPrinter, places: Places, changed: set[Role]
) -> Iterator[LayerParameter]:
    """Yield the tables and arrays that a loop touches, sizes, the number of the layer and working memory."""
    roles = {places[buffer][0] for buffer in loop.touched if buffer in places}
    for role in Role:
        if role in roles:
            yield LayerParameter("table", role, changes=role in changed)
    for size in loop.sizes:
        yield LayerParameter("size", size)
    own = {x.home for x in (*printer.lowered.arguments, *printer.lowered.results)}.difference(places)
    for buffer, changes in loop.touched.items():
        if buffer in own:
            yield LayerParameter("array", printer.names[buffer], buffer.type.dtype, changes)
    if any(buffer in printer.plan.offsets for buffer in loop.touched):
        yield LayerParameter("arena", printer.arena)
    yield LayerParameter("size", loop.variable)
    calls = [line for line in _every(loop.lines) if isinstance(line, Call)]
    if any(call.scratch for call in calls):
        yield LayerParameter("memory", "memory")
    if any(call.per_thread for call in calls):
        yield LayerParameter("bytes", "scratch_bytes")


def _struct(loop: CallLoop, places: Places) -> str | None:
    """Return the name of the layers of which a loop touches arrays."""
    members = (places[buffer][1] for buffer in loop.touched if buffer in places)
    return next((member.layers.identifier for member in members if member.layers), None)


def _every(lines: Sequence[CallLine]) -> Iterator[CallLine]:
    """Yield all lines, each with those within."""
    for line in lines:
        yield line
        if isinstance(line, CallLoop):
            yield from _every(line.lines)
        elif isinstance(line, CallBranch):
            yield from _every([*line.parts[0], *line.parts[1]])
