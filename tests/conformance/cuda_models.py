"""Models emitted as CUDA, built for the simulator or a device, and run by a driver that needs only NumPy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from catgrad.backends import cuda_simulator as simulator
from catgrad.backends.c.compiler import shared_library
from catgrad.backends.cuda.loading import memory, toolchain
from catgrad.backends.cuda.tools import simulating

from catgrad.artifact import Artifact
from tests.conformance.c_models import MODELS, Batch, numbers
from tests.conformance.cuda_driver import Driver
from tests.gpu import limits
from tests.targets import emit


@dataclass(frozen=True)
class Emitted:
    """A model as CUDA, its batches, and the results of the target numpy."""

    artifact: Artifact
    files: Mapping[str, str]
    batches: list[Batch]
    wanted: Mapping[str, np.ndarray]

    @property
    def source(self) -> str:
        """The name of the file of kernels."""
        return f"{self.artifact.program.name}.cu"

    @property
    def text(self) -> str:
        """The kernels, and functions that launch them."""
        return self.files[self.source]

    @property
    def last(self) -> list[Batch]:
        """The last batch, which sizes of tiles do not divide."""
        return self.batches[-1:]

    def library(self, *flags: str, text: str | None = None) -> Path:
        """Compile it, perhaps with another text of its kernels."""
        files = {**self.files, self.source: self.text if text is None else text}
        prefix = self.artifact.program.name
        if simulating():
            return simulator.library(files, "memory.cu", prefix, flags)
        return shared_library(prefix, files, "memory.cu", flags, toolchain("native"))

    def driver(self, *flags: str, text: str | None = None) -> Driver:
        """Compile and load it."""
        return Driver(self.library(*flags, text=text), json.loads(self.files["manifest.json"]))

    def assert_right(self, found: Mapping[str, np.ndarray], tolerance: float = 1e-5) -> None:
        """Compare results with those of the target numpy, which has no state for the learning rate."""
        assert found.keys() - self.wanted.keys() <= {"state learning_rate"}
        for name, wanted in self.wanted.items():
            np.testing.assert_allclose(found[name], wanted, rtol=tolerance, atol=tolerance, err_msg=name)


@cache
def emitted(name: str, machine: str) -> Emitted:
    """Emit a model, for the default limits of schedules or for small ones."""
    model, rng = MODELS[name], np.random.default_rng(0)
    batches = [model.draw(rng, size) for size in model.sizes]
    with limits(machine):
        artifact = emit(model.task(), "cuda")
    files = {file: str(text) for file, text in artifact.files.items()} | {"memory.cu": memory(artifact)}
    return Emitted(artifact, files, batches, numbers(model.task(), batches))
