"""Emitted libraries in Node.js, by the module that is emitted with them."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from catgrad.backend import Artifact

from ..c.interface import CODES
from ..javascript.loading import loaded
from ..javascript.session import Module, Wire
from .build import EXACT, FLAGS, library

BAD_INDEX = list(CODES).index("BAD_INDEX")


def load(artifact: Artifact, exact: bool = False) -> Any:
    """Compile the library, for speed or in `exact` arithmetic, and import the module.

    Returns the class `CompiledModel`. Raises: ToolError if the library cannot be compiled
    """
    wasm = b64encode(library(artifact, EXACT if exact else FLAGS).read_bytes()).decode()
    return loaded(artifact.program, Module(artifact.source, Wire(has_int64=True), wasm=wasm))
