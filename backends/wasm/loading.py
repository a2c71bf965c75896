"""Emitted libraries in Node.js, by the module that is emitted with them."""

from __future__ import annotations

import os
from base64 import b64encode
from typing import Any

from catgrad.artifact import Artifact

from ..c.interface import CODES
from ..javascript.loading import loaded
from ..javascript.session import Module, Wire
from .build import MAX_THREADS, library, modules

BAD_INDEX = list(CODES).index("BAD_INDEX")


def load(artifact: Artifact, exact: bool = False) -> type:
    """Compile the library, for speed or in `exact` arithmetic, and import the module.

    One with threads has as many as OMP_NUM_THREADS says, or else as there are processors. Returns the class
    `CompiledModel`. Raises: ToolError if the library cannot be compiled
    """
    path, wire = library(artifact, exact), Wire(has_int64=True)
    wasm = b64encode(path.read_bytes()).decode()
    if not artifact.backend.options.openmp:
        return loaded(artifact.program, Module(artifact.source, wire, wasm=wasm))
    main, *_ = modules(artifact.program)
    return loaded(artifact.program, Module(path.with_name(main), wire, wasm=wasm, **wanted_threads()))


def wanted_threads() -> dict[str, Any]:
    """Return the option by which models have the threads that OMP_NUM_THREADS says, if it says a number."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return {"threads": max(1, min(int(said), MAX_THREADS))} if said.isdecimal() else {}
