"""The newest ggml, in the wheel of ggml-compiler."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from catgrad.backends.c.cache import digest

CONFIG = """\
add_library(ggml::ggml SHARED IMPORTED)
set_target_properties(ggml::ggml PROPERTIES IMPORTED_LOCATION "{library}")
target_include_directories(ggml::ggml INTERFACE "{headers}")
"""


def missing_newest() -> str:
    """Return why the newest version is no other than the installed one; empty if it is."""
    if not find_spec("ggml_compiler"):
        return "the package ggml-compiler, which has the newest version, is not installed"
    return "" if find_spec("ggml") else "it is the only version: ggml-python is not installed"


def newest(folder: Path) -> Path:
    """Write the CMake configuration that the package lacks; returns the prefix to search.

    Cached libraries are linked to where the package is, and known by the prefix: each place has its own.
    """
    spec = find_spec("ggml_compiler")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    prefix = folder / digest(str(package).encode())
    configuration = prefix / "lib" / "cmake" / "ggml" / "ggml-config.cmake"
    configuration.parent.mkdir(parents=True, exist_ok=True)
    library, headers = package / "lib" / "libggml_compiler_rt.so", package / "include"
    configuration.write_text(CONFIG.format(library=library, headers=headers))
    return prefix
