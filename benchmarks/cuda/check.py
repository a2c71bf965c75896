"""Correctness on a GPU: rounding to TF32, exact products and windows, attention, models, and conformance.

`python -m benchmarks.cuda.check NAME` runs one check, and fails if results are not those of the reference: of
a model, losses of steps, which compute-sanitizer runs too.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np

from benchmarks.cuda.exact import differing
from benchmarks.cuda.heads import wrong_heads
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
SECONDS = 90
"""The time of a check, at most; those of numbers run at once, and then those for races."""
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
    """Check a device while there is time, and say what was found: of numbers first, then of races.

    Each check is a process of its own, since an error on a GPU ends all later calls of a process.
    """
    numbers = [("rounding",), ("exact",), ("heads",), *((name,) for name in CHECKED), ("conformance",)]
    races = [(name, tool) for tool, name in product(TOOLS, CHECKED)]
    for some in (numbers, races):
        with ThreadPoolExecutor(len(some)) as pool:
            found = [pool.submit(checked_alone, *each, seconds=min(left(), SECONDS)) for each in some]
            for names, future in zip(some, found, strict=True):
                yield f"{', '.join(names)}: {future.result()}"


def checked_alone(name: str, tool: str = "", seconds: float = SECONDS) -> str:
    """Run a check, perhaps under compute-sanitizer, and return its last line, or why it was not run."""
    program = shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path="/usr/local/cuda/bin"
    )
    if tool and not program:
        return "not run: there is no compute-sanitizer"
    if seconds <= 0:
        return "not run: the time is up"
    under = [str(program), "--tool", tool, "--error-exitcode", str(FAILED)] if tool else []
    command = [*under, sys.executable, "-m", __spec__.name, name]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "stopped: the time is up"
    last = ([*done.stdout.splitlines(), *done.stderr.splitlines()] or ["it says nothing"])[-1]
    return f"{'passed' if done.returncode == 0 else 'FAILED'}: {last}"


def check(name: str) -> str:
    """Run a check in this process, and say what was found. Raises: ToolError if it is wrong."""
    if name == "rounding":
        return f"factors of math=tf32 are rounded {rounding()}"
    if name == "conformance":
        from catgrad.testing import conformance

        found = conformance("cuda")
        found.check()
        return f"{len(found.rows)} operations agree with the reference"
    own = {"exact": differing, "heads": wrong_heads}
    wrong = own[name]() if name in own else agrees(name)
    if wrong:
        raise ToolError(
            "results on a GPU must be those of NumPy", wrong, "report this as a defect of catgrad"
        )
    return "the results are those of NumPy"


if __name__ == "__main__":
    print(check(sys.argv[1]))
