"""Manifest of a library as JSON, for programs that build or call it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from catgrad.manifest import terms_sha256
from catgrad.programs.ports import Role
from catgrad.programs.program import Function, Program

from ..kernels.signatures import ArrayArgument, CallConvention
from .functions import CFunction
from .interface import prefix
from .layouts import Layout, Place


def manifest(
    program: Program,
    functions: Mapping[str, CFunction],
    placed: Mapping[str, Layout],
    with_memory: bool = True,
    prepared: Sequence[Any] = (),
    **more: Any,
) -> str:
    """List the names, shapes and dtypes of all arrays, and the functions with their arguments.

    Libraries whose callers own the memory also list offsets and bytes (`with_memory`). `prepared` are the
    weights that are packed for predictions, in the order of the struct's members.
    """
    optimiser, settings = program.optimiser
    described = {
        "name": program.name,
        "prefix": prefix(program),
        **more,
        **terms_sha256(program),
        "optimiser": {"name": optimiser, **dict(settings)},
        **({"notes": list(program.notes)} if program.notes else {}),
        "tables": {table: [_array(p, with_memory) for p in layout] for table, layout in placed.items()},
        **({"prepared": [{"name": x.name, "member": x.identifier} for x in prepared]} if prepared else {}),
        "functions": [
            _function(prefix(program), f, functions[f.name], with_memory)
            for f in program.functions
            if not f.kind.is_initial
        ],
    }
    return json.dumps(described, indent=2, ensure_ascii=False, default=str)


def _array(place: Place, with_memory: bool) -> dict[str, object]:
    return {
        "name": place.slot.name,
        "member": place.identifier,
        "dtype": place.slot.type.dtype.name,
        "shape": list(place.shape),
        **({"offset": place.offset} if with_memory else {}),
    }


def _function(prefix: str, function: Function, printed: CFunction, with_memory: bool) -> dict[str, object]:
    called = CallConvention.of(function)
    return {
        "name": f"{prefix}_{called.name}",
        "doc": function.doc,
        "tables": [table for table, _ in called.tables],
        "changed": [table for table, changed in called.tables if changed],
        "gradients": called.gradients,
        "sizes": list(printed.sizes),
        "inputs": [_own(x) for x in printed.inputs if x.role is not Role.GRADIENT],
        "outputs": [_own(y) for y in printed.outputs if y.role is not Role.GRADIENT],
        **({"workspace_bytes": printed.workspace} if with_memory else {}),
    }


def _own(array: ArrayArgument) -> dict[str, object]:
    shape = [size if isinstance(size, int) else str(size) for size in array.type.shape]
    return {"name": array.identifier, "dtype": array.type.dtype.name, "shape": shape}
