"""Loading of an emitted library: compiled, with its functions on arrays and its learner."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from catgrad.artifact import Artifact
from catgrad.programs.ports import Kind
from catgrad.programs.program import Program

from ..host.functions import class_of_models
from ..host.learner import LibraryLearner
from .compiler import EXACT, C, shared_library
from .harness import LibraryFunction
from .initial import Initial
from .library import SharedLibrary
from .prepare import PREDICT_PREPARED
from .prepared import PreparedFunction, PreparingLearner


def load(artifact: Artifact, exact: bool = False) -> Any:
    """Return the class `CompiledModel` of an emitted library, compiled for speed, or in `exact` arithmetic.

    Raises: ToolError if it cannot be compiled
    """
    program, manifest = artifact.program, json.loads(artifact.files["manifest.json"])
    flags = ["-fopenmp"] if manifest["openmp"] else []
    toolchain = EXACT if exact else C
    files = sources(artifact, ".c", ".h", "_runtime.h")
    path = shared_library(manifest["prefix"], files, f"{program.name}.c", flags, toolchain)
    library = SharedLibrary(path, manifest["prefix"])
    library.forks = not manifest["openmp"]
    model = loaded(program, library, LibraryFunction, PreparingLearner)
    if PREDICT_PREPARED in program.variants:
        names = [weight["name"] for weight in manifest.get("prepared", ())]
        predict = program.kinds[Kind.PREDICT]
        model.predict_prepared = PreparedFunction(library, program, predict, names)
    return model


def sources(artifact: Artifact, *endings: str) -> dict[str, str]:
    """Return the emitted files called like the model, with these endings, if there are such."""
    names = [f"{artifact.program.name}{ending}" for ending in endings]
    return {name: artifact.text(name) for name in names if name in artifact.files}


def loaded(
    program: Program,
    library: SharedLibrary,
    entry: Callable[..., Any],
    learner_type: type[LibraryLearner] = LibraryLearner,
) -> Any:
    """Return the class `CompiledModel` with the functions of a library and its learner."""
    functions = {
        function.name: (Initial if function.kind.is_initial else entry)(library, program, function)
        for function in program.functions
    }
    return class_of_models(program, {"library": library, **functions}, learner_type)
