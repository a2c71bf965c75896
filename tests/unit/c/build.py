"""How tests build and run what is emitted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from catgrad.backend import get_backend

PROGRAMS = Path(__file__).parent
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
SANE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
MISSING = get_backend("c").missing()
NEEDS_C = pytest.mark.skipif(bool(MISSING), reason=f"target c: {MISSING}")


def run(*command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)


def built(*command, **options):
    done = run(*command, **options)
    assert done.returncode == 0, done.stderr + done.stdout
