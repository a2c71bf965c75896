"""Builds by CMake of programs on ggml."""

from __future__ import annotations

import pytest
from catgrad.backends.c.cmake import CMAKE
from catgrad.backends.ggml.tools import GGML

from tests.targets import cannot
from tests.unit.c.build import built

NEEDS_GGML = pytest.mark.skipif(bool(cannot("ggml")), reason=f"target ggml: {cannot('ggml')}")


def built_by_cmake(folder, flags=()):
    """Build the emitted files of a folder as their README says; returns the training program."""
    options = [f"-DCMAKE_{language}_FLAGS={' '.join(flags)}" for language in ("C", "CXX")]
    build = folder / "build"
    built(*CMAKE.command(), "-S", folder, "-B", build, f"-DCMAKE_PREFIX_PATH={GGML.prefix()}", *options)
    built(*CMAKE.command(), "--build", build)
    return build / "train"
