"""Discovery of modules by scanning a package, each of which registers what it defines."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules


def import_modules(package: str, folders: Iterable[str]) -> None:
    """Import all modules of a package, in alphabetical order."""
    for module in iter_modules(folders):
        import_module(f"{package}.{module.name}")
