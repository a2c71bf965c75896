"""Tools that emitted CUDA needs to run: a GPU and the compiler nvcc, or else the simulator."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from catgrad.tools import Executable, Tool, run

from .. import cuda_simulator as simulator

SIMULATE = "CATGRAD_CUDA_SIMULATE"
"""The environment variable that, if it is 1, has every emitted library run in the simulator."""

WHOLE = {"9.0": "sm_90a"}
"""The architectures of GPUs of these compute capabilities, whose warp groups `native` does not reach."""

SECONDS = 20
"""Seconds in which the driver names its GPUs."""

NVCC = Executable(
    name="CUDA compiler",
    names=("nvcc",),
    variable="NVCC",
    install="install the CUDA toolkit, or set $NVCC",
    use="building for a GPU",
)


def simulating() -> bool:
    """Tell whether libraries run in the simulator by default."""
    return os.environ.get(SIMULATE) == "1"


def architecture() -> str:
    """Return nvcc's name of the GPUs of this machine, the one with all their instructions."""
    try:
        said = run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], SECONDS).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "native"
    return WHOLE.get(said.strip().replace("\n", " "), "native")


@dataclass(frozen=True, kw_only=True)
class Device(Tool):
    """A GPU, or the simulator in its place."""

    def is_installed(self) -> bool:
        """Look for NVIDIA's driver, or for the simulator's compiler."""
        return simulator.COMPILER.is_installed() if simulating() else Path("/dev/nvidiactl").exists()

    def absence(self) -> str:
        """Return what is missing."""
        return simulator.COMPILER.absence() if simulating() else f"there is no {self.name}"

    def remedy(self) -> str:
        """Return what to do."""
        return simulator.COMPILER.remedy() if simulating() else self.install

    def version(self) -> str:
        """Return the version of the driver."""
        try:
            return Path("/sys/module/nvidia/version").read_text().strip()
        except OSError:
            return ""


GPU = Device(
    name="NVIDIA GPU", install=f"use one with its driver, or `load(simulate=True)`, or set ${SIMULATE}=1"
)
NEEDS = (GPU, NVCC, simulator.COMPILER)
