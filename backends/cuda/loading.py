"""Loading of an emitted library, on a GPU or in the simulator."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from catgrad.backend import Artifact

from .. import cuda_simulator as simulator
from ..c.compiler import Toolchain, shared_library
from ..c.loading import loaded, sources
from .device import Device
from .harness import Entry
from .tools import GPU, NVCC, simulating

TOOLCHAIN = Toolchain(
    language="CUDA",
    compiler=NVCC,
    flags=("-std=c++17", "-O3", "-arch=native"),
    shared=("-shared", "-Xcompiler", "-fPIC"),
)


def load(artifact: Artifact, simulate: bool | None = None) -> Any:
    """Return the class `CompiledModel` of an emitted library.

    With `simulate`, it runs in the simulator; by default, if the environment variable says so.

    Raises: ToolError if it cannot be compiled, or there is no GPU
    """
    simulate = simulating() if simulate is None else simulate
    program, manifest = artifact.program, json.loads(artifact.files["manifest.json"])
    prefix = manifest["prefix"]
    options = artifact.backend.options
    files = sources(artifact, ".cu", ".h", "_runtime.cuh")
    libraries = [*(["-lnccl"] if options.nccl else []), *(["-lcublasLt"] if options.calls_library else [])]
    path = _built({**files, "memory.cu": memory(artifact)}, prefix, libraries, simulate)
    device = Device(path, prefix, manifest["guarded"], simulate, options.calls_library)
    return loaded(program, device, Entry)


def memory(artifact: Artifact) -> str:
    """Print the functions for memory of the device, which a loader compiles with the library."""
    template = artifact.backend.environment.get_template("memory.cu.j2")
    return template.render(program=artifact.program, backend=artifact.backend)


def _built(files: Mapping[str, str], prefix: str, libraries: Sequence[str], simulate: bool) -> Path:
    if simulate:
        return simulator.library(files, "memory.cu", prefix)
    GPU.require("target cuda")
    return shared_library(prefix, files, "memory.cu", libraries, TOOLCHAIN)
