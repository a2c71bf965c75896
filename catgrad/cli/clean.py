"""The command that removes cached files: `clean`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from catgrad.cli.commands import app
from catgrad.cli.tables import Cell, show
from catgrad.errors import ArtifactError
from catgrad.files import user_cache
from catgrad.paths import reason

CACHES = {"c": "compiled libraries of c, cuda, ggml and wasm", "templates": "compiled templates"}
"""Folders of the cache, and their contents; packages of Node.js are installed by hand, and stay."""


@app.command()
def clean(
    dry: Annotated[bool, typer.Option("--dry-run", help="List what would be removed, and keep it.")] = False,
) -> None:
    """Remove compiled libraries and templates from the user's cache, or $CATGRAD_CACHE.

    They are made again where they are needed. Nothing else in that folder is touched.

    Example: `catgrad clean --dry-run`
    """
    rows: list[Sequence[Cell]] = []
    for name, contents in CACHES.items():
        folder = user_cache() / name
        size = sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
        rows.append([str(folder), contents, size // 10**6])
        if not dry:
            _remove(folder)
    show(["folder", "contents", "MB"], rows)


def _remove(folder: Path) -> None:
    """Remove a folder that exists. Raises: ArtifactError if that fails."""
    try:
        if folder.exists():
            shutil.rmtree(folder)
    except OSError as error:
        raise ArtifactError(
            "the cache must be removable", f"{folder} is not: {reason(error)}", "remove it by hand"
        ) from None
