"""Manifest of a library as JSON, for programs that build or call it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from catgrad.programs.program import Program
from catgrad.terms.state import Slot

from .interface import layouts, prefix


def manifest(
    program: Program,
    functions: Mapping[str, Any],
    tables: Mapping[str, Sequence[tuple[Slot, str]]],
    **more: Any,
) -> str:
    """List the names, shapes and dtypes of all arrays, and the functions with their arguments."""
    optimiser, settings = program.optimiser
    described = {
        "name": program.name,
        "prefix": prefix(program),
        **more,
        "optimiser": {"name": optimiser, **dict(settings)},
        "tables": {table: [_array(p) for p in layout] for table, layout in layouts(tables).items()},
        "functions": [_function(f, program) for f in functions.values() if not f.kind.is_initial],
    }
    return json.dumps(described, indent=2, ensure_ascii=False, default=str)


def _array(place: Any) -> dict[str, Any]:
    return {
        "name": place.slot.name,
        "member": place.identifier,
        "dtype": place.slot.type.dtype.name,
        "shape": list(place.shape),
        "offset": place.offset,
    }


def _function(function: Any, program: Program) -> dict[str, Any]:
    called = function.entry
    return {
        "name": f"{prefix(program)}_{called.name}",
        "doc": function.doc,
        "tables": [table for table, _ in called.tables],
        "changed": [table for table, changed in called.tables if changed],
        "gradients": called.gradients,
        "sizes": list(function.sizes),
        "inputs": [_own(x) for x in function.inputs],
        "outputs": [_own(y) for y in function.outputs],
        "workspace_bytes": function.workspace,
    }


def _own(array: Any) -> dict[str, Any]:
    shape = [size if isinstance(size, int) else str(size) for size in array.type.shape]
    return {"name": array.identifier, "dtype": array.type.dtype.name, "shape": shape}
