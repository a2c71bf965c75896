"""The line of users' code that makes a wire: the innermost frame of the call stack outside of libraries."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("catgrad", "catgrad.backends", "catgrad.templates")
LIBRARIES = (*(f"{files(name)}{os.sep}" for name in PACKAGES), sysconfig.get_path("stdlib"), "<frozen")
"""Prefixes of paths of files that are not users' code, besides those of installed packages."""


class Origin(NamedTuple):
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line} of {Path(self.file).name}"


def origin() -> Origin | None:
    """Return the line of users' code that is running, or None if there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        if not is_library(frame.f_code.co_filename):
            return Origin(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]  # None ends the stack
    return None


@cache
def is_library(filename: str) -> bool:
    """Return whether a file belongs to catgrad, to Python or to an installed package."""
    installed = {"site-packages", "dist-packages"}
    return filename.startswith(LIBRARIES) or not installed.isdisjoint(Path(filename).parts)
