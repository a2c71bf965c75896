"""Tools that emitted C++ on ggml needs to run: ggml, CMake and compilers."""

from __future__ import annotations

from ..c.cmake import CMAKE, CMakePackage
from ..c.compiler import COMPILER, CXX

TESTED_VERSION = "0.15.3"
"""The version of ggml that is tested, and that CMake can download."""

GGML = CMakePackage(
    name="library ggml",
    package="ggml",
    variable="CATGRAD_GGML",
    install="pip install ggml-python==0.0.45, or set $CATGRAD_GGML to where it is installed",
)
NEEDS = (GGML, CMAKE, COMPILER, CXX)
