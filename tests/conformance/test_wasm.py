"""Emitted WebAssembly computes the bits of emitted C with vectors of 128 bits and no fused products."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
from catgrad.backends.c.compiler import Toolchain, shared_library
from catgrad.backends.c.harness import LibraryFunction
from catgrad.backends.c.library import SharedLibrary
from catgrad.backends.c.loading import loaded, sources
from catgrad.backends.wasm.build import ROUNDING, ZIG

from benchmarks.cpu.workloads import WORKLOADS
from catgrad import NdArrayType, build
from catgrad.targets import get_backend
from catgrad.testing import run_on
from catgrad.tools import Executable
from catgrad.types import Dtype
from tests.covering import some
from tests.targets import cannot, emit

pytestmark = pytest.mark.skipif(bool(cannot("wasm")), reason=str(cannot("wasm")))

STEPS = 3


@dataclass(frozen=True, kw_only=True)
class Zig(Executable):
    """Clang for this machine, of the same version."""

    def command(self):
        return [sys.executable, "-m", "ziglang", "cc"]


SSE2 = Toolchain(
    language="C",
    compiler=Zig(name="zig", names=("python",), install=ZIG.install),
    flags=(
        *("-target", "x86_64-linux-gnu", "-mcpu=x86_64", "-std=c11", "-O3", *ROUNDING),
        *("-mllvm", "-force-vector-interleave=1"),  # or clang sums by several vectors on this processor
    ),
)
"""A processor with vectors of 128 bits and no fused products, as WebAssembly's, and sums by one vector."""


def in_c(task, seed):
    """Return the learner of the target c, compiled for SSE2."""
    artifact = emit(task, "c")
    name = artifact.program.name
    path = shared_library(name, sources(artifact, ".c", ".h", "_runtime.h"), f"{name}.c", toolchain=SSE2)
    return loaded(artifact.program, SharedLibrary(path, name), LibraryFunction)().learner(seed)


@pytest.mark.skipif(sys.platform != "linux", reason="the library in C is compiled for Linux")
@pytest.mark.parametrize("name", some(("iris-16", "mlp", "lenet", "char-gpt"), ("lenet",)))
def test_bits_equal_those_of_c(name):
    [workload] = [each for each in WORKLOADS if each.name == name]
    workload = replace(workload, batch=4)
    data = workload.data()
    emitted, expected = emit(workload.task, "wasm").load()().learner(seed=1), in_c(workload.task, 1)
    for _ in range(STEPS):
        assert emitted.step(data["x"], data["y"]).tobytes() == expected.step(data["x"], data["y"]).tobytes()
    for table in ("parameters", "state"):
        for array, other in zip(
            getattr(emitted, table).values(), getattr(expected, table).values(), strict=True
        ):
            assert array.tobytes() == other.tobytes()


def test_whole_numbers_have_64_bits():
    term = build(lambda n: n + 1, [NdArrayType((2,), Dtype.int64)])
    [found] = run_on(get_backend("wasm"), term, np.array([2**53 + 1, -(2**63)]))
    assert found.tolist() == [2**53 + 2, 1 - 2**63]
