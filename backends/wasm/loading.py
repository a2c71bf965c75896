"""Emitted libraries in Node.js, by the module that is emitted with them."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from base64 import b64encode
from pathlib import Path
from typing import Any

from catgrad.backend import Artifact

from ..c.interface import CODES
from ..javascript.loading import loaded
from ..javascript.session import Module, Wire
from .build import MAX_THREADS, library

BAD_INDEX = list(CODES).index("BAD_INDEX")


def load(artifact: Artifact, exact: bool = False) -> Any:
    """Compile the library, for speed or in `exact` arithmetic, and import the module.

    One with threads has as many as OMP_NUM_THREADS says, or else as there are processors. Returns the class
    `CompiledModel`. Raises: ToolError if the library cannot be compiled
    """
    wasm = b64encode(library(artifact, exact).read_bytes()).decode()
    wire = Wire(has_int64=True)
    if not artifact.backend.options.openmp:
        return loaded(artifact.program, Module(artifact.source, wire, wasm=wasm))
    folder = Path(tempfile.mkdtemp())
    artifact.write(folder)
    module = Module(folder / f"{artifact.program.name}.mjs", wire, wasm=wasm, **wanted_threads())
    model = loaded(artifact.program, module)
    weakref.finalize(model, shutil.rmtree, folder, ignore_errors=True)  # each model starts workers from it
    return model


def wanted_threads() -> dict[str, int]:
    """Return the option by which models have the threads that OMP_NUM_THREADS says, if it says a number."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return {"threads": max(1, min(int(said), MAX_THREADS))} if said.isdecimal() else {}
