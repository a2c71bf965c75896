"""Diagnosis of this machine: installed tools, and the targets that can run with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from catgrad.backend import Backend
from catgrad.cli.tables import Cell
from catgrad.errors import ToolError
from catgrad.targets import backends, get_backend
from catgrad.terms.draw import GRAPHVIZ, PURE
from catgrad.tools import Tool

OUTSIDE = (GRAPHVIZ, PURE)
"""Tools that no target needs."""

Row = Sequence[Cell]


def examine() -> tuple[list[Row], list[Row]]:
    """Return rows of targets: name, whether emitted code runs here, advice; and of tools: name, version,
    users, advice for installation.
    """
    found: dict[str, Backend | ToolError] = {}
    for name in sorted(backends()):
        try:
            found[name] = get_backend(name)
        except ToolError as error:
            found[name] = error
    return [_target(name, backend) for name, backend in found.items()], list(_tools(found))


def _target(name: str, backend: Backend | ToolError) -> Row:
    reason = str(backend) if isinstance(backend, ToolError) else backend.missing()
    return name, not reason, reason or ""


def _tools(found: dict[str, Backend | ToolError]) -> Iterator[Row]:
    """Yield each tool once, with the targets that need it, or its use."""
    uses: dict[Tool, list[str]] = {}
    for name, backend in found.items():
        for tool in backend.needs if isinstance(backend, Backend) else ():
            uses.setdefault(tool, []).append(f"{name}: {tool.use}" if tool.use else name)
    uses |= {tool: [tool.use] for tool in OUTSIDE}
    for tool, users in uses.items():
        version = (tool.version() or "unknown") if tool.is_installed() else "not here"
        yield tool.name, version, users, "" if tool.is_installed() else tool.remedy()
