"""Compilation of all libraries of `benchmarks.cuda` on a machine without a GPU."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path

from catgrad.backends.cuda.loading import compile_library

from benchmarks.cuda.check import CHECKED, artifact_of
from benchmarks.cuda.exact import FORMS, exact_artifact
from benchmarks.cuda.heads import heads_artifact
from benchmarks.cuda.library import emitted_task
from benchmarks.cuda.rounding import rounding_artifact
from benchmarks.cuda.workloads import KERNELS, workloads_of
from catgrad.artifact import Artifact
from catgrad.errors import ToolError
from catgrad.programs.ports import Kind
from catgrad.targets import get_backend
from catgrad.testing import conformance_artifacts


def artifacts(parts: Sequence[str], checks: bool) -> Iterator[tuple[str, Artifact]]:
    """Emit the libraries of parts, and those of the check of a device, each once."""
    if checks:
        yield "rounding", rounding_artifact()
        for form in FORMS:
            yield f"exact {form}", exact_artifact(form)
        yield "heads", heads_artifact()
        for name in CHECKED:
            yield name, artifact_of(name)
        for number, artifact in enumerate(conformance_artifacts("cuda")):
            yield f"conformance {number}", artifact
    known = set[str]()
    for part in parts:
        yield from kernels(part) if part in KERNELS else steps(part, known)


def kernels(part: str) -> Iterator[tuple[str, Artifact]]:
    """Emit the libraries of kernels of a part."""
    from benchmarks.cuda import kernels as gpu_kernels

    for program, options, _ in gpu_kernels.programs(part, simulate=False):
        yield f"{part} {options}", get_backend("cuda").configured(**options).emit(program)
    if part == "rows":
        task = gpu_kernels.updated_task(gpu_kernels.UPDATED)
        yield "AdamW", get_backend("cuda").emit(emitted_task(task, (Kind.UPDATE,)))


def steps(part: str, known: set[str]) -> Iterator[tuple[str, Artifact]]:
    """Emit the libraries of steps of a part, one for each set of options, but those that are known."""
    for workload in workloads_of(part):
        every = {tuple(workload.options_of(word).items()) for word in workload.ours}
        names = {f"{workload.trained} {dict(options)}": dict(options) for options in sorted(every)}
        new = {name: options for name, options in names.items() if name not in known}
        known.update(new)
        if new:
            program = emitted_task(workload.precise_task, (Kind.STEP,))
            for name, options in new.items():
                yield name, get_backend("cuda").configured(**options).emit(program)


def prebuilt(parts: Sequence[str], folder: Path, architectures: Sequence[str], checks: bool) -> Iterator[str]:
    """Compile libraries into a folder while others are emitted, and say of each what has become of it."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running, begun = set[Future[str]](), time.monotonic()
        for name, artifact in artifacts(parts, checks):
            emitted = f"{name}: emitted in {time.monotonic() - begun:.0f} s"
            running.add(pool.submit(_compiled, emitted, artifact, folder, architectures))
            ended = {future for future in running if future.done()}
            running -= ended
            yield from (future.result() for future in ended)
            begun = time.monotonic()
        yield from (future.result() for future in as_completed(running))


def _compiled(emitted: str, artifact: Artifact, folder: Path, architectures: Sequence[str]) -> str:
    """Compile a library, and say how long it took."""
    begun = time.monotonic()
    try:
        name = compile_library(artifact, folder, architectures).name
    except ToolError as error:
        return f"{emitted}, not compiled, {error.found}"
    return f"{emitted}, compiled in {time.monotonic() - begun:.0f} s as {name}"
