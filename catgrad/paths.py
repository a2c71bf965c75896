"""Validation of paths given by users: regular files of a plausible size, and errors of those that fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from stat import S_ISREG

from catgrad.errors import ArtifactError, CatgradError


def require_file(what: str, path: str | Path, most: int) -> None:
    """Raise ArtifactError unless the path is a regular file that is not empty and has at most `most` bytes.

    A device or a pipe may never end, nor may virtual files of the system, whose size is 0.
    """
    with readable(what, path):
        found = Path(path).stat()
    if not S_ISREG(found.st_mode):
        raise ArtifactError(f"{what} must be a regular file", f"{str(path)!r} is none", "save it to a file")
    if not 0 < found.st_size <= most:
        raise ArtifactError(
            f"{what} must have 1 to {most:,} bytes",
            f"{str(path)!r} has {found.st_size:,}",
            "check that it is the right one",
        )


def readable(what: str, path: str | Path) -> AbstractContextManager[None]:
    """Raise ArtifactError with the reason where a path cannot be read."""
    return _usable(f"{what} must be readable", path, "check the path")


def writable(what: str, path: str | Path) -> AbstractContextManager[None]:
    """Raise ArtifactError with the reason where a path cannot be written."""
    return _usable(f"{what} must be writable", path, "choose another path")


@contextmanager
def _usable(must: str, path: str | Path, do: str) -> Iterator[None]:
    try:
        yield
    except CatgradError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a character that paths cannot have
        raise ArtifactError(must, f"{str(path)!r} is not: {reason(error)}", do) from None


def reason(error: OSError | ValueError) -> str:
    """Return the reason why a file cannot be used, by the system or by Python."""
    return getattr(error, "strerror", None) or str(error)
