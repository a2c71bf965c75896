"""Loading of an emitted library, on a GPU or in the simulator."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from catgrad.backend import Artifact

from ..c.compiler import Toolchain, shared_library
from ..c.loading import loaded
from . import simulator
from .device import Device
from .harness import Entry
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
    libraries = ("-lnccl",) if artifact.backend.options.nccl else ()
    path = _built({**files, "memory.cu": memory}, prefix, libraries, simulate)
    return loaded(program, Device(path, prefix, manifest["guarded"], simulate), Entry, Learner)


def _built(files: Mapping[str, str], prefix: str, libraries: Sequence[str], simulate: bool) -> Path:
    if simulate:
        return simulator.library(files, "memory.cu", prefix)
    GPU.require("target cuda")
    return shared_library(prefix, files, "memory.cu", libraries, TOOLCHAIN)
