"""Manifest of an artifact as JSON: arrays, functions, weights, options and versions, for other programs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from catgrad.programs.ports import Port
from catgrad.programs.program import Program
from catgrad.types import NdArrayType

FILE = "manifest.json"
"""The name of the file."""


def manifest(program: Program, own: str, weights: Path | None, **more: Any) -> str:
    """Describe a program and its file of weights; entries of the target's `own` manifest replace these.

    Raises: OSError if the weights cannot be read
    """
    optimiser, settings = program.optimiser
    described = {
        "name": program.name,
        "catgrad": version("catgrad"),
        **more,
        **terms_sha256(program),
        "weights_file": _file(weights) if weights else None,
        "optimiser": {"name": optimiser, **settings},
        "tables": {
            table: [_array(slot.name, slot.type) for slot in slots]
            for table, slots in program.tables.items()
            if slots
        },
        "functions": [
            {"name": f.name, "inputs": _ports(f.inputs), "outputs": _ports(f.outputs)}
            for f in program.functions
            if not f.kind.is_initial
        ],
    }
    merged = described | (json.loads(own) if own else {})
    return json.dumps(merged, indent=2, ensure_ascii=False, default=str) + "\n"


def terms_sha256(program: Program) -> Mapping[str, str]:
    """Describe the terms of a program, by their hash."""
    return {"terms_sha256": program.digest} if program.digest else {}


def _file(path: Path) -> Mapping[str, object]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest}


def _ports(ports: Iterable[Port]) -> list[Mapping[str, object]]:
    """Describe the arrays of a call, without the tables."""
    return [_array(port.name, port.type) for port in ports if not port.role.is_table]


def _array(name: str, type: NdArrayType) -> Mapping[str, object]:
    shape = [size if isinstance(size, int) else str(size) for size in type.shape]
    return {"name": name, "dtype": type.dtype.name, "shape": shape}
