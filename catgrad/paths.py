"""Paths that users give: of regular files whose size is plausible."""

from __future__ import annotations

from pathlib import Path
from stat import S_ISREG

from catgrad.errors import ArtifactError


def require_file(what: str, path: str | Path, most: int) -> None:
    """Raise ArtifactError unless there is a regular file of so many bytes at most, and not empty.

    A device or a pipe may never end, and so may files that the system makes up, which say they are empty.
    """
    try:
        found = Path(path).stat()
    except (OSError, ValueError) as error:  # ValueError: of a path that no system can have
        raise ArtifactError(
            f"{what} must be readable",
            f"{str(path)!r} is not: {getattr(error, 'strerror', error)}",
            "check the path",
        ) from None
    if not S_ISREG(found.st_mode):
        raise ArtifactError(f"{what} must be a regular file", f"{str(path)!r} is none", "save it to a file")
    if not 0 < found.st_size <= most:
        raise ArtifactError(
            f"{what} must have 1 to {most:,} bytes here",
            f"{str(path)!r} has {found.st_size:,}",
            "check that it is the right one",
        )
