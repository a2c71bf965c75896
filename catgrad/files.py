"""Atomic file writes: a file is replaced as a whole, or not at all; and where cached files are."""

from __future__ import annotations

import errno
import os
import platform
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

HALF_BYTES = 4
"""Bytes of the machine, and as many random ones, in the name of a temporary file, written in hexadecimal."""

STRAY_SECONDS = 3600
"""Seconds without a write after which a writer on another machine is considered dead."""


def user_cache() -> Path:
    """Return the folder of cached files: $CATGRAD_CACHE, or the user's cache."""
    if chosen := os.environ.get("CATGRAD_CACHE"):
        return Path(chosen).absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("catgrad", appauthor=False)).absolute()


def write_atomically(path: Path, blocks: Iterable[bytes]) -> None:
    """Write the blocks to a temporary file, and replace the old file once it is on disk.

    The temporary file `.NAME.….part`, with digits of the machine and random ones, is in the same folder and
    belongs to this call only. A link is followed: its target is replaced, and the link stays.

    Raises: OSError if that fails; then the old file is unchanged.
    """
    target = _target(path)
    # A long name is truncated, as names have at most 255 bytes.
    prefix = f".{os.fsencode(target.name)[:100].decode(errors='ignore')}."
    _remove_strays(target.parent, prefix)
    temporary, file = _opened(target.parent, prefix)
    try:
        with file:
            with suppress(FileNotFoundError):
                shutil.copymode(target, temporary)
            file.writelines(blocks)
            file.flush()
            os.fsync(file.fileno())
            if sys.platform != "win32":
                os.replace(temporary, target)  # while it is locked, or it may be taken for a stray
        if sys.platform == "win32":  # which replaces closed files only
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)


def _target(path: Path) -> Path:
    """Follow links. Raises: OSError if the target cannot be replaced, such as a folder or a device."""
    try:
        target = Path(os.path.realpath(path))
    except ValueError as error:  # the path has a character that is not allowed in paths
        raise OSError(errno.EINVAL, str(error)) from None
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise OSError(errno.EINVAL, "it is neither a file nor a link to one")
    return target


def _opened(folder: Path, prefix: str) -> tuple[Path, IO[bytes]]:
    """Create a temporary file, and lock it, before another writer takes it for a stray."""
    while True:
        temporary = folder / f"{prefix}{_machine()}{secrets.token_hex(HALF_BYTES)}.part"
        file = temporary.open("xb")
        _lock(file, waits=True)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), temporary.stat()):
                return temporary, file
        file.close()


def _remove_strays(folder: Path, prefix: str) -> None:
    """Remove temporary files of writers that were killed.

    A live writer has its file locked. But one on another machine may not share locks, so its file must be old
    as well.
    """
    for stray in folder.glob(f"{escape(prefix)}{'[0-9a-f]' * 4 * HALF_BYTES}.part"):
        with suppress(OSError):
            found, is_own = stray.lstat(), stray.name.startswith(prefix + _machine())
            if stat.S_ISREG(found.st_mode) and (is_own or time.time() - found.st_mtime > STRAY_SECONDS):
                with stray.open("r+b") as file:
                    if _lock(file):
                        stray.unlink()


@cache
def _machine() -> str:
    """Return the digits that tell this machine from others that share a folder with it."""
    return sha256(platform.node().encode()).hexdigest()[: 2 * HALF_BYTES]


def _lock(file: IO[bytes], waits: bool = False) -> bool:
    """Lock a file until it is closed or its process ends; return False if that is not possible.

    A lock that another has is waited for, or not possible.
    """
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk, where the system supports it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
