"""Files that are whole or not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path


def write_whole(path: Path, blocks: Iterable[bytes]) -> None:
    """Write the blocks one after the other; an older file is replaced only once the new one is whole.

    Raises: OSError if that fails; then the older file is as it was.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.writelines(blocks)
        if path.exists():
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
