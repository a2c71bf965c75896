"""Memory of emitted C: workspaces by its plans, flash and stack by a compiler for a microcontroller."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from catgrad.artifact import Artifact
from catgrad.dims import Size
from catgrad.footprint import Footprint, Memory
from catgrad.loops.memory_plan import largest

from ..kernels.signatures import initials
from .cross import Machine, cortex_m4, linked, stacks
from .interface import prefix
from .prepare import template_context


def footprint(artifact: Artifact, sizes: Mapping[str, int]) -> Footprint:
    """Measure the functions of an artifact at these sizes, with one thread.

    Raises: ToolError if a compiler is there but fails
    """
    spaces, machine = _workspaces(artifact, sizes), cortex_m4()
    if reason := machine.missing():
        notes = (f"flash and stack: {reason}",)
        return Footprint({name: Memory(space) for name, space in spaces.items()}, notes=notes)
    with tempfile.TemporaryDirectory() as folder:
        artifact.write(folder)
        return _compiled(artifact, spaces, machine, Path(folder))


def _workspaces(artifact: Artifact, sizes: Mapping[str, int]) -> dict[str, Size]:
    """Evaluate the plan of each function, and of the initial values together."""
    functions = template_context(artifact.backend, artifact.program)["functions"]
    called = [f for f in functions.values() if not f.kind.is_initial]
    found = {f.convention.name: f.memory.at(sizes) for f in called}
    first = initials(functions)
    most: Size = 0
    for function in first:
        most = largest(most, function.memory.at(sizes))
    return {**({"init": most} if first else {}), **found}


def _compiled(artifact: Artifact, spaces: Mapping[str, Size], machine: Machine, folder: Path) -> Footprint:
    """Link each function by itself, and all together."""
    sources = [f"{artifact.program.name}.c"]
    entries = {name: f"{prefix(artifact.program)}_{name}" for name in spaces}
    deep = stacks(machine, sources, entries.values(), folder)
    functions = {
        name: Memory(space, linked(machine, sources, [entries[name]], folder).code, deep[entries[name]])
        for name, space in spaces.items()
    }
    flash = linked(machine, sources, [*entries.values()], folder).code
    return Footprint(functions, flash, (f"flash and stack: {machine.name}",))
