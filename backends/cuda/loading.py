"""Loading of an emitted library, on a GPU or in the simulator."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from catgrad.artifact import Artifact
from catgrad.files import write_atomically

from .. import cuda_simulator as simulator
from ..c.cache import digest
from ..c.compiler import Toolchain, shared_library
from ..c.loading import loaded
from ..c.loading import sources as emitted
from .device import Device
from .harness import DeviceFunction
from .tools import GPU, NVCC, architecture, simulating

FLAGS = ("-std=c++17", "-O3")
TOOLCHAIN = Toolchain(language="CUDA", compiler=NVCC, flags=FLAGS, shared=("-shared", "-Xcompiler", "-fPIC"))


LIBRARIES = "CATGRAD_CUDA_LIBRARIES"
"""The environment variable with a folder of libraries that `compile_library` made, perhaps elsewhere."""


def toolchain(*architectures: str) -> Toolchain:
    """Return the compiler for GPUs of some architectures, as `sm_90a`, or of one that is `native`."""
    numbers = [name.removeprefix("sm_") for name in architectures]
    generated = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers]
    return replace(TOOLCHAIN, flags=(*FLAGS, *(["-arch=native"] if numbers == ["native"] else generated)))


def load(artifact: Artifact, simulate: bool | None = None) -> Any:
    """Return the class `CompiledModel` of an emitted library.

    With `simulate`, it runs in the simulator; by default, if the environment variable says so.

    Raises: ToolError if it cannot be compiled, or there is no GPU
    """
    simulate = simulating() if simulate is None else simulate
    sources, manifest = _Sources.of(artifact), json.loads(artifact.files["manifest.json"])
    path = simulator.library(sources.files, "memory.cu", sources.prefix) if simulate else _compiled(sources)
    calls_library = artifact.backend.options.calls_library
    device = Device(path, sources.prefix, manifest["guarded"], simulate, calls_library)
    return loaded(artifact.program, device, DeviceFunction)


def compile_library(artifact: Artifact, folder: Path, architectures: Sequence[str]) -> Path:
    """Compile a library for GPUs of some architectures, as `sm_90a`, into a folder, and return its path.

    No GPU need be here. Where $CATGRAD_CUDA_LIBRARIES names the folder, `load` needs no compiler.

    Raises: ToolError if it cannot be compiled
    """
    sources = _Sources.of(artifact)
    library = sources.compiled(toolchain(*architectures))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{sources.stem}.{'.'.join(architectures)}.so"
    write_atomically(path, [library.read_bytes()])
    return path


def memory(artifact: Artifact) -> str:
    """Print the functions for memory of the device, which a loader compiles with the library."""
    template = artifact.backend.environment.get_template("memory.cu.j2")
    return template.render(program=artifact.program, backend=artifact.backend)


@dataclass(frozen=True)
class _Sources:
    """The sources of a library, the prefix of its names, and the libraries that it is linked with."""

    files: dict[str, str]
    prefix: str
    libraries: tuple[str, ...]

    @staticmethod
    def of(artifact: Artifact) -> _Sources:
        """Collect what is compiled of an artifact."""
        options = artifact.backend.options
        files = {**emitted(artifact, ".cu", ".h", "_runtime.cuh"), "memory.cu": memory(artifact)}
        libraries = (("-lnccl", options.nccl), ("-lcublasLt", options.calls_library))
        prefix = json.loads(artifact.files["manifest.json"])["prefix"]
        return _Sources(files, prefix, tuple(name for name, is_called in libraries if is_called))

    @property
    def stem(self) -> str:
        """The beginning of the name of a compiled library, with a hash of the sources."""
        texts = [*self.files, *self.files.values(), *self.libraries]
        return f"{self.prefix}.{digest(chr(0).join(texts).encode())}"

    def compiled(self, toolchain: Toolchain) -> Path:
        """Return the compiled library, from the cache if it is there."""
        return shared_library(self.prefix, self.files, "memory.cu", self.libraries, toolchain)


def _compiled(sources: _Sources) -> Path:
    """Return the library for the GPU of this machine, one that is compiled already if there is any."""
    GPU.require("target cuda")
    folder = os.environ.get(LIBRARIES)
    found = sorted(Path(folder).glob(f"{sources.stem}.*.so")) if folder else []
    return found[0].absolute() if found else sources.compiled(toolchain(architecture()))
