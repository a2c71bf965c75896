"""Emitted Python, loaded as a module."""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable
from itertools import count
from types import ModuleType
from typing import Any

from catgrad.backend import Artifact

_NUMBER = count()


def load_module(
    artifact: Artifact, find: Callable[[ModuleType], Any] = lambda module: module.CompiledModel
) -> Any:
    """A class of the artifact's main file, run as a new module; by default `CompiledModel`.

    What runs is the text this package has just emitted, never a file found somewhere.
    """
    filename = f"<catgrad {artifact.program.name} {next(_NUMBER)}>"
    module = ModuleType(f"catgrad_emitted_{artifact.program.name}")
    exec(compile(artifact.source, filename, "exec"), vars(module))
    found = find(module)
    weakref.finalize(found, linecache.cache.pop, filename, None)
    # So that tracebacks through emitted code show its lines.
    lines = artifact.source.splitlines(keepends=True)
    linecache.cache[filename] = (len(artifact.source), None, lines, filename)
    return found
