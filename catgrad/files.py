"""Files that are whole or not there."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

RANDOM_BYTES = 8
"""Of the name of a file that is being written; as hexadecimal digits they are twice as many."""

STRAY_SECONDS = 3600
"""How long nobody has written to a file before its writer may be taken for dead."""


def write_whole(path: Path, blocks: Iterable[bytes]) -> None:
    """Write the blocks one after the other; an older file is replaced only once the new one is on disk.

    Until then they are in a file beside it, `.NAME.RANDOM.part`, which is made anew and belongs to this call
    alone. A link is followed: the file it leads to is replaced, and the link stays.

    Raises: OSError if that fails; then the older file is as it was.
    """
    target = _target(path)
    # The beginning of a long name is enough, for names have 255 bytes at most.
    prefix = f".{os.fsencode(target.name)[:100].decode(errors='ignore')}."
    _remove_strays(target.parent, prefix)
    temporary = target.with_name(f"{prefix}{secrets.token_hex(RANDOM_BYTES)}.part")
    file = temporary.open("xb")
    try:
        with file:
            _lock(file)
            with suppress(FileNotFoundError):
                shutil.copymode(target, temporary)
            file.writelines(blocks)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)


def reason(error: OSError | ValueError) -> str:
    """Return the system's words for why a file cannot be used, or Python's if its path is none."""
    return getattr(error, "strerror", None) or str(error)


def _target(path: Path) -> Path:
    """Follow links. Raises: OSError if what is there cannot be replaced, such as a folder or a device."""
    try:
        target = Path(os.path.realpath(path))
    except ValueError as error:  # the path has a character that no path may have
        raise OSError(errno.EINVAL, str(error)) from None
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise OSError(errno.EINVAL, "it is neither a file nor a link to one")
    return target


def _remove_strays(folder: Path, prefix: str) -> None:
    """Remove files that writers left behind when they were killed.

    A writer that lives has its file locked, whatever container it runs in. It may be suspended before it
    has the lock, or on a machine that does not share its locks; so the file must be old as well.
    """
    for stray in folder.glob(f"{escape(prefix)}{'[0-9a-f]' * 2 * RANDOM_BYTES}.part"):
        with suppress(OSError):
            found = stray.lstat()
            if stat.S_ISREG(found.st_mode) and time.time() - found.st_mtime > STRAY_SECONDS:
                with stray.open("r+b") as file:
                    if _lock(file):
                        stray.unlink()


def _lock(file: IO[bytes]) -> bool:
    """Lock a file until it is closed or its process ends; returns False if it is locked, or cannot be."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Bring new names in a folder to disk, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
