"""The registry of targets: loaders from all installed packages, by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from catgrad.backend import Backend
from catgrad.errors import CatgradWarning, ToolError, UnknownName, unknown
from catgrad.terms.op import OPS

GROUP = "catgrad.backends"
"""The entry-point group of targets: each entry is a function () -> {name: loader}."""

BUILTIN = EntryPoint("builtin", "catgrad.backends:provide", GROUP)
"""The entry of the built-in targets, of which a checkout that is not installed has no metadata."""


def backends() -> dict[str, Callable[[], Backend]]:
    """Find a loader for every installed target, by name. Raises: UnknownName if two have one name."""
    found: dict[str, Callable[[], Backend]] = {}
    every = {entry.value: entry for entry in (BUILTIN, *entry_points(group=GROUP))}
    for _, entry in sorted(every.items()):
        for name, loader in _provided(entry).items():
            if name in found:
                raise UnknownName(
                    "targets must have distinct names",
                    f"two packages provide {name!r}, one of them {entry.value}",
                    "uninstall one of them",
                )
            found[name] = loader
    return found


def _provided(entry: EntryPoint) -> dict[str, Callable[[], Backend]]:
    try:
        provided: dict[str, Callable[[], Backend]] = entry.load()()
    except Exception as error:  # a broken package must not take the others with it
        said = f"the targets of {entry.value} do not load: {error!r}"
        warnings.warn(said, CatgradWarning, stacklevel=3)
        return {}
    return provided


@cache
def get_backend(name: str) -> Backend:
    """Load the target of this name.

    Raises: UnknownName, with the nearest name there is; ToolError if its package does not load.
    """
    known = backends()
    if name not in known:
        raise unknown("target", name, known, "catgrad targets")
    try:
        return known[name]()
    except Exception as error:
        raise ToolError(
            f"the target {name} must load",
            f"its package raised {error!r}",
            "repair the package, or uninstall it",
        ) from error


def loaded_backends() -> dict[str, Backend]:
    """Load every target, by name; warn of those that fail."""
    found: dict[str, Backend] = {}
    for name in sorted(backends()):
        try:
            found[name] = get_backend(name)
        except ToolError as error:
            warnings.warn(str(error), CatgradWarning, stacklevel=2)
    return found


def capability_table() -> dict[str, dict[str, bool]]:
    """Tabulate, for each operation, which targets print it themselves."""
    loaded = loaded_backends()
    return {op: {name: op in backend.operations for name, backend in loaded.items()} for op in sorted(OPS)}
