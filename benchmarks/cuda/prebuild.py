"""Compilation of all libraries of `benchmarks.cuda` on a machine without a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from catgrad.backends.cuda.loading import compile_library

from benchmarks.cuda.check import CHECKED, artifact_of
from benchmarks.cuda.library import emitted_task
from benchmarks.cuda.rounding import rounding_artifact
from benchmarks.cuda.workloads import KERNELS, workloads_of
from catgrad.artifact import Artifact
from catgrad.errors import ToolError
from catgrad.programs.ports import Kind
from catgrad.targets import get_backend
from catgrad.testing import conformance_artifacts


def artifacts(parts: Sequence[str], checks: bool) -> Iterator[tuple[str, Artifact]]:
    """Emit the libraries of parts, and those of the check of a device."""
    if checks:
        yield "rounding", rounding_artifact()
        for name in CHECKED:
            yield name, artifact_of(name)
        for number, artifact in enumerate(conformance_artifacts("cuda")):
            yield f"conformance {number}", artifact
    for part in parts:
        yield from kernels(part) if part in KERNELS else steps(part)


def kernels(part: str) -> Iterator[tuple[str, Artifact]]:
    """Emit the libraries of kernels of a part."""
    from benchmarks.cuda import kernels as gpu_kernels

    for program, options, _ in gpu_kernels.programs(part, simulate=False):
        yield f"{part} {options}", get_backend("cuda").configured(**options).emit(program)
    if part == "rows":
        task = gpu_kernels.updated_task(gpu_kernels.UPDATED)
        yield "AdamW", get_backend("cuda").emit(emitted_task(task, (Kind.UPDATE,)))


def steps(part: str) -> Iterator[tuple[str, Artifact]]:
    """Emit the libraries of steps of a part, one for each set of options."""
    for workload in workloads_of(part):
        program = emitted_task(workload.precise_task, (Kind.STEP,))
        every = {tuple(workload.options_of(word).items()) for word in workload.ours}
        for options in sorted(every):
            backend = get_backend("cuda").configured(**dict(options))
            yield f"{workload.name} {dict(options)}", backend.emit(program)


def prebuilt(parts: Sequence[str], folder: Path, architectures: Sequence[str], checks: bool) -> Iterator[str]:
    """Compile libraries side by side into a folder, and say what has become of each."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = {
            pool.submit(compile_library, artifact, folder, architectures): name
            for name, artifact in artifacts(parts, checks)
        }
        for future in as_completed(futures):
            try:
                yield f"{futures[future]}: {future.result().name}"
            except ToolError as error:
                yield f"{futures[future]}: not compiled, {error.found}"
