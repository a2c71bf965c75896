"""Validation of paths given by users: regular files of a plausible size."""

from __future__ import annotations

from pathlib import Path
from stat import S_ISREG

from catgrad.errors import ArtifactError


def require_file(what: str, path: str | Path, most: int) -> None:
    """Raise ArtifactError unless the path is a regular file that is not empty and has at most `most` bytes.

    A device or a pipe may never end, nor may virtual files of the system, whose size is 0.
    """
    try:
        found = Path(path).stat()
    except (OSError, ValueError) as error:  # ValueError: a character that paths cannot have
        raise ArtifactError(
            f"{what} must be readable",
            f"{str(path)!r} is not: {getattr(error, 'strerror', error)}",
            "check the path",
        ) from None
    if not S_ISREG(found.st_mode):
        raise ArtifactError(f"{what} must be a regular file", f"{str(path)!r} is none", "save it to a file")
    if not 0 < found.st_size <= most:
        raise ArtifactError(
            f"{what} must have 1 to {most:,} bytes",
            f"{str(path)!r} has {found.st_size:,}",
            "check that it is the right one",
        )
