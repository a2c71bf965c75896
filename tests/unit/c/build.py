"""Build and run emitted C in tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from catgrad.backend import get_backend

ZIG = [sys.executable, "-m", "ziglang", "cc"]
CLANG = ["clang"] if shutil.which("clang") else ZIG if find_spec("ziglang") else []
COMPILERS = {"gcc": ["gcc"] if shutil.which("gcc") else [], "clang": CLANG}
PROGRAMS = Path(__file__).parent
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Werror"]
STRICT += ["-fopenmp-simd"]
SANE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
MISSING = get_backend("c").missing()
NEEDS_C = pytest.mark.skipif(bool(MISSING), reason=f"target c: {MISSING}")


def run(*command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)


def built(*command, **options):
    done = run(*command, **options)
    assert done.returncode == 0, done.stderr + done.stdout
