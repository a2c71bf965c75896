"""Compile the CUDA of tests for the simulator, and call it."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

import pytest
from catgrad.backends.c.compiler import version
from catgrad.backends.cuda_simulator import COMPILER, library

from catgrad.tools import run
from tests.compiled import LIMIT

from .device import Device

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]
ORDERS = ("forward", "backward", "random:1", "random:2")
"""Orders in which the simulator runs threads."""

NEEDS_CXX = pytest.mark.skipif(bool(COMPILER.missing()), reason=f"the CUDA simulator: {COMPILER.missing()}")


@cache
def compiled(name, *flags):
    """Compile a file of this folder, and return its path."""
    return library({f"{name}.cu": (FOLDER / f"{name}.cu").read_text()}, f"{name}.cu", name, flags)


@cache
def device(name):
    """Load a file of this folder."""
    return Device(compiled(name))


def sanitized(sanitizer, *arguments, **variables):
    """Run a Python module with libraries that one of GCC's sanitizers watches; skip without its runtime."""
    if "Free Software Foundation" not in version(tuple(COMPILER.command()), COMPILER):
        pytest.skip(f"{COMPILER.command()[0]} is not GCC, whose sanitizers are found")
    runtime = {"address": "libasan.so", "thread": "libtsan.so"}[sanitizer]
    path = run([*COMPILER.command(), f"-print-file-name={runtime}"], LIMIT).stdout.strip()
    if not os.path.isabs(path):
        pytest.skip(f"{COMPILER.command()[0]} has no {runtime}")
    # Python itself leaks, and its allocator would hide where arrays end. On some machines, the slow unwinder
    # walks beyond the stacks of the simulator's threads.
    options = {
        "ASAN_OPTIONS": "detect_leaks=0:fast_unwind_on_fatal=1",
        "TSAN_OPTIONS": "history_size=2",
        "PYTHONMALLOC": "malloc",
    }
    environment = {**os.environ, **options, "LD_PRELOAD": path, **variables}
    return run([sys.executable, "-m", *map(str, arguments)], LIMIT, cwd=ROOT, env=environment)
