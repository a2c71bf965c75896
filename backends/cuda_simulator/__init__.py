"""The CUDA simulator: compiles CUDA source for the host, where each thread of a device is a fiber."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..c.compiler import CXX as COMPILER
from ..c.compiler import Toolchain, shared_library
from .translation import translate

__all__ = ["COMPILER", "library", "translate"]

FLAGS = (
    "-std=c++17",
    "-march=native",
    "-Og",  # compiles in little more than half the time of -O1, and most programs run a few times
    "-fexpensive-optimizations",  # clears vector registers where they would slow the C library down
    "-ffp-contract=off",  # the same bits on every machine, whatever instructions it has
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-strict-aliasing",
    "-fwrapv",  # as nvcc: floats are read as float4, integers wrap
    "-fno-exceptions",
    "-fno-rtti",
    "-fvisibility-inlines-hidden",
)

SUFFIXES = (".cu", ".cuh", ".h", ".hpp")
"""Endings of files that may contain CUDA."""

TOOLCHAIN = Toolchain(language="CUDA", compiler=COMPILER, flags=FLAGS, headers=Path(__file__).parent)


def library(files: Mapping[str, str], source: str, name: str, flags: Sequence[str] = ()) -> Path:
    """Return the library of a CUDA source among these files, compiled for the simulator unless it is cached.

    Raises: TextError if a launch names no kernel; ToolError if there is no C++ compiler, or it fails
    """
    translated = {file: translate(text) if file.endswith(SUFFIXES) else text for file, text in files.items()}
    return shared_library(name, translated, source, ["-x", "c++", *flags], TOOLCHAIN)
