"""The built-in targets: one folder each, discovered by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

FAMILIES = frozenset({"cuda_simulator", "host", "kernels", "python"})
"""Folders that targets build on and that are not targets."""


def provide() -> dict[str, Callable[[], Any]]:
    """Return a loader for each target, by name. Loading one imports only that one."""
    names = [module.name for module in iter_modules(__path__) if module.name not in FAMILIES]
    return {name.replace("_", "-"): partial(_load, name) for name in names}


def templates(name: str) -> Path:
    """Return the template folder of a target."""
    return Path(str(files("catgrad.templates"))) / name


def _load(name: str) -> Any:
    return import_module(f"{__name__}.{name}").BACKEND
