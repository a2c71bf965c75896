"""Our side of `benchmarks.cuda` without a GPU: each part at few sizes in the simulator, against PyTorch."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.cuda import kernels as gpu_kernels
from benchmarks.cuda.workloads import KERNELS, GpuWorkload, workloads_of
from benchmarks.peers.worker import Case
from benchmarks.race import disagreement
from benchmarks.workloads import written

STEPS = 3
TOLERANCES = {"float32": 1e-5, "tf32": 1e-3, "bf16": 1e-3}
"""The relative tolerance of losses for each precision; PyTorch's on the processor has no TF32."""


def simulated(part: str) -> Iterator[str]:
    """Run all of a part, and say what has agreed. Raises: AssertionError if a result differs."""
    if part in KERNELS:
        yield from _kernels(part)
    for workload in workloads_of(part):
        yield steps(workload)


def steps(workload: GpuWorkload) -> str:
    """Take steps in each form, and compare their losses with PyTorch's."""
    from benchmarks.peers import cuda_emitted, torch_eager

    small = workload.simulated()
    with tempfile.TemporaryDirectory() as folder:
        place = written(small, Path(folder))
        step = torch_eager.makers(Case(place, 1))["step"]()
        expected = [float(step.call()) for _ in range(STEPS)]
        for word in ("launches", "graph", "many"):
            many = word == "many"
            timed = getattr(cuda_emitted.Stepper(Case(place, 1, word), STEPS if many else 0), word)()
            calls = [timed.fetch(timed.call()) for _ in range(1 if many else STEPS)]
            found = disagreement(np.concatenate(calls).tolist(), expected, TOLERANCES[workload.precision])
            if found:
                raise AssertionError(f"{workload.name}, {word}: {found}")
    return f"{workload.name}: the losses of {STEPS} steps are PyTorch's, as launches, graph and one call"


def _kernels(part: str) -> Iterator[str]:
    for case, bind in gpu_kernels.bindings(part, simulate=True):
        gpu_kernels.check(bind())
        yield f"{case.name}: the results are PyTorch's"
    if part == "rows":
        gpu_kernels.check(gpu_kernels.adamw((48, 32), simulate=True))
        yield "AdamW: the results are PyTorch's"
