"""Loading of an emitted library, on a GPU or in the simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from catgrad.backend import Artifact
from catgrad.programs.ports import Kind
from catgrad.programs.program import Program

from ..c.compiler import Toolchain, shared_library
from . import simulator
from .device import Device
from .harness import Entry, Initial
from .learner import Learner
from .tools import GPU, NVCC, simulating

TOOLCHAIN = Toolchain(
    language="CUDA", compiler=NVCC, flags=("-std=c++17", "-O3", "-arch=native", "-Xcompiler", "-fPIC")
)


def load(artifact: Artifact, simulate: bool | None = None) -> Any:
    """Return the class `CompiledModel` of an emitted library.

    With `simulate`, it runs in the simulator; by default, if the environment variable says so.

    Raises: ToolError if it cannot be compiled, or there is no GPU
    """
    simulate = simulating() if simulate is None else simulate
    program, manifest = artifact.program, json.loads(artifact.files["manifest.json"])
    prefix = manifest["prefix"]
    memory = artifact.backend.environment.get_template("memory.cu.j2").render(program=program)
    files = {name: str(artifact.files[name]) for name in (f"{program.name}.cu", f"{program.name}.h")}
    device = Device(_built({**files, "memory.cu": memory}, prefix, simulate), prefix)
    attributes: dict[str, Any] = {"program": program, "library": device}
    for function in program.functions:
        if function.kind.is_initial:
            attributes[function.name] = Initial(device, program, function)
        else:
            attributes[function.name] = Entry(device, program, function, manifest["guarded"])

    def learner(self: Any, seed: int = 0) -> Learner:
        return Learner(model, seed)

    if Kind.STEP in program.kinds:
        attributes["learner"] = learner
    model = type("CompiledModel", (Loaded,), attributes)
    return model


def _built(files: dict[str, str], prefix: str, simulate: bool) -> Path:
    if simulate:
        return simulator.library(files, "memory.cu", prefix)
    GPU.require("target cuda")
    return shared_library(prefix, files, "memory.cu", (), TOOLCHAIN)


class Loaded:
    """A library, and the program it was printed from; functions take and return lists of arrays."""

    program: ClassVar[Program]
    library: ClassVar[Device]
