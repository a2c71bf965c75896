"""ThreadSanitizer: a clang that supports it, and archer, which reports OpenMP's synchronisation to it."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.unit.c.build import PROGRAMS, run

NAMES = ["clang", *(f"clang-{version}" for version in range(25, 13, -1))]
FLAGS = ["-std=c11", "-O0", "-g", "-fopenmp", "-fsanitize=thread"]


@cache
def compiler() -> str:
    """Find the first clang whose programs run with these flags and print nothing; empty if there is none."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "probe"
        for name in filter(shutil.which, NAMES):
            built = run(name, *FLAGS, PROGRAMS / "probe.c", "-o", program)
            done = run(program, env=environment(name)) if built.returncode == 0 else built
            if done.returncode == 0 and not done.stderr:
                return name
    return ""


def environment(name: str) -> dict[str, str]:
    """Set four threads, and archer, without which OpenMP's synchronisation looks like a race."""
    archer = run(name, "-print-file-name=libarcher.so").stdout.strip()
    options = {"OMP_TOOL_LIBRARIES": archer, "TSAN_OPTIONS": "ignore_noninstrumented_modules=1"}
    return {**os.environ, "OMP_NUM_THREADS": "4", **options}


NEEDS_WATCHER = pytest.mark.skipif(
    not compiler(), reason="no clang with OpenMP, ThreadSanitizer and archer (Debian: clang, libomp-dev)"
)


def assert_no_race(program: Path, *arguments: object) -> str:
    """Run a program built with `compiler` and FLAGS; returns what it prints."""
    done = run(program, *arguments, env=environment(compiler()), cwd=program.parent)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
