"""Loading of an emitted library: built by CMake, with its functions on arrays and its learner."""

from __future__ import annotations

from typing import Any

from catgrad.artifact import Artifact

from ..c.cmake import library
from ..c.interface import prefix
from ..c.loading import loaded
from .harness import ModelFunction, ModelLibrary
from .tools import GGML


def load(artifact: Artifact, threads: int = 1, device: str = "CPU") -> Any:
    """Return the class `CompiledModel` of an emitted library, on a device of ggml.

    Raises: ToolError if ggml, CMake or a compiler is missing, or the library cannot be built
    """
    name, program = prefix(artifact.program), artifact.program
    sources = {k: str(text) for k, text in artifact.files.items() if k.endswith((".cpp", ".c", ".h", ".txt"))}
    path = library(f"{name}_ggml", sources, GGML)
    return loaded(program, ModelLibrary(path, name, program, device, threads), ModelFunction)
