"""Output of nvcc for kernels: messages of ptxas, and machine code."""

from __future__ import annotations

import re
import shutil
import sysconfig
from pathlib import Path

import pytest

from catgrad.tools import run
from tests.compiled import LIMIT, compiled_once

NEEDS_NVCC = pytest.mark.skipif(not shutil.which("nvcc"), reason="there is no nvcc")
ARCHITECTURES = pytest.mark.parametrize(
    "architecture", [pytest.param("sm_80", marks=pytest.mark.long), "sm_90"]
)
"""The newest architecture, and another in the long tests."""
NVCC = ("nvcc", "-std=c++17", "-O3", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra")


def compiled(source, folder, *options):
    """Compile a file in a folder to machine code, and return the messages of ptxas."""
    target = Path(source).with_suffix(".cubin").name
    done = compiled_once(*NVCC, *options, "-Xptxas", "-v", "-cubin", "-o", target, source, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stderr


def require_clean(messages, least):
    """Assert that ptxas serialises and spills nothing in at least some kernels.

    A remark C75xx says that it waits early, or ignores setmaxnreg.
    """
    assert not re.search(r"C75\d\d|erializ", messages), messages
    spills = re.findall(
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", messages
    )
    assert len(spills) >= least
    assert {*spills} == {("0", "0", "0")}


def disassembler():
    """Find nvdisasm, of CUDA or of PyPI's nvidia-cuda-nvdisasm."""
    packaged = sorted(Path(sysconfig.get_path("platlib")).glob("nvidia/**/bin/nvdisasm"))
    return shutil.which("nvdisasm") or next((str(path) for path in packaged), None)


NEEDS_NVDISASM = pytest.mark.skipif(not disassembler(), reason="there is no nvdisasm")


def kernels(cubin):
    """Return the machine code of each kernel of a file, by its mangled name."""
    text = run([disassembler(), "-c", str(cubin)], LIMIT).stdout
    parts = re.split(r"\.section\s+\.text\.", text)[1:]
    return {part.split(",")[0]: part for part in parts}
