"""Correctness on a GPU: rounding to TF32, compute-sanitizer on the steps of four models, and conformance.

`python -m benchmarks.cuda.check MODEL` takes steps of one model, and fails if its losses are not those of the
reference; compute-sanitizer runs that.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from benchmarks.cuda.rounding import rounding
from benchmarks.cuda.workloads import GPU_WORKLOADS, GpuWorkload
from benchmarks.harness import ROOT
from benchmarks.race import disagreement
from catgrad import emit
from catgrad.artifact import Artifact
from catgrad.errors import ToolError

CHECKED = ("iris", "digits", "resnet-8", "char-gpt-bf16")
"""The models that take steps, at the sizes of the simulator."""
TOOLS = ("memcheck", "racecheck", "synccheck")
STEPS, TOLERANCE = 3, 1e-3
SECONDS = 30
"""The time of compute-sanitizer for each model and tool, at most."""
FAILED = 9
"""The exit status of compute-sanitizer where it finds an error."""


def reduced(name: str) -> GpuWorkload:
    """Return a workload at the size of the simulator."""
    [workload] = [each for each in GPU_WORKLOADS if each.name == name]
    return workload.simulated()


def artifact_of(name: str) -> Artifact:
    """Emit the step of a model."""
    return emit(reduced(name).precise_task, "cuda", ["step"])


def step_losses(name: str, target: str, **options: bool) -> list[float]:
    """Take steps of a model on a target, from the same parameters on the same batch."""
    workload = reduced(name)
    artifact = artifact_of(name) if target == "cuda" else emit(workload.precise_task, target, ["step"])
    learner, data = artifact.load(**options)().learner(0), workload.data()
    for parameter, array in workload.parameters().items():
        learner.parameters[parameter] = array
    return [float(np.ravel(learner.step(data["x"], data["y"]))[0]) for _ in range(STEPS)]


def agrees(name: str, **options: bool) -> str:
    """Return how the losses of a model differ from those on NumPy; empty if they agree."""
    return disagreement(step_losses(name, "cuda", **options), step_losses(name, "numpy"), TOLERANCE)


def checked(left: Callable[[], float]) -> Iterator[str]:
    """Check a device while there is time, and say what was found."""
    yield f"factors of math=tf32 are rounded {rounding()}"
    for tool, name in product(TOOLS, CHECKED):
        yield f"{name}, {tool}: {sanitized(name, tool, min(left(), SECONDS))}"
    for name in CHECKED:
        yield f"{name}: {agrees(name) or 'the losses are those of NumPy'}"
    if left() > 0:
        from catgrad.testing import conformance

        yield str(conformance("cuda"))


def sanitized(name: str, tool: str, seconds: float) -> str:
    """Take steps under compute-sanitizer, and return what it says at the end, or why it was not run."""
    program = shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path="/usr/local/cuda/bin"
    )
    if not program:
        return "not run: there is no compute-sanitizer"
    if seconds <= 0:
        return "not run: the time is up"
    options = ["--tool", tool, "--error-exitcode", str(FAILED)]
    command = [program, *options, sys.executable, "-m", __spec__.name, name]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "stopped: the time is up"
    last = ([*done.stdout.splitlines(), *done.stderr.splitlines()] or ["it says nothing"])[-1]
    return f"{'passed' if done.returncode == 0 else 'FAILED'}: {last}"


if __name__ == "__main__":
    if found := agrees(sys.argv[1]):
        raise ToolError(
            "steps on a GPU must have the losses of NumPy", found, "report this as a defect of catgrad"
        )
