"""Emitted CUDA built by nvcc for several GPUs: no warning, spill or stack, at most 48 KiB shared memory."""

from __future__ import annotations

import re

import pytest
from catgrad.backends.cuda.tools import NVCC

from catgrad import Dtype, emit
from tests.conformance.c_models import MODELS, mlp
from tests.unit.c.build import run

pytestmark = pytest.mark.skipif(bool(NVCC.missing()), reason=f"nvcc: {NVCC.missing()}")
TASKS = {
    "mlp": MODELS["mlp"].task,
    "cnn": MODELS["cnn"].task,
    "bfloat16": lambda: mlp(Dtype.bfloat16),
    "float16": lambda: mlp(Dtype.float16),
    "char_gpt": MODELS["char_gpt"].task,
}
ALL = ("75", "80", "90")
BUILDS = {"mlp": ALL, "cnn": ALL, "bfloat16": ("80",), "float16": ("80", "90"), "char_gpt": ("90",)}
"""Compute capabilities that models are built for: tensor cores, which
multiply 16-bit floats, are used from 8.0 on."""
SHARED_BYTES = 48 * 2**10


@pytest.mark.parametrize("name", BUILDS)
def test_nvcc_builds_without_warnings_and_kernels_stay_in_registers(name, tmp_path):
    artifact = emit(TASKS[name](), "cuda")
    artifact.write(tmp_path)
    architectures = [word for sm in BUILDS[name] for word in ("-gencode", f"arch=compute_{sm},code=sm_{sm}")]
    strict = ["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-fPIC", "-Xptxas", "-v,-warn-spills"]
    source = f"{artifact.program.name}.cu"
    options = ["-std=c++17", "-O3", *architectures, *strict, "-shared", source, "-o", "library.so"]
    done = run(*NVCC.command(), *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    kernels = re.findall(
        r"Function properties for (\w+)\n\s*(\d+) bytes stack frame, (\d+) .*, (\d+)", done.stderr
    )
    assert len(kernels) >= len(BUILDS[name]) * (tmp_path / source).read_text().count("<<<") // 8
    assert [each for each in kernels if each[1:] != ("0", "0", "0")] == []
    assert all(int(bytes) <= SHARED_BYTES for bytes in re.findall(r"(\d+) bytes smem", done.stderr))
