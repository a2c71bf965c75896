"""Content-addressed cache of compiled libraries."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

from catgrad.errors import ArtifactError
from catgrad.files import user_cache, write_atomically
from catgrad.paths import reason


def cached(
    name: str, files: Mapping[str, str], made_by: Iterable[str], build: Callable[[Path, Path], None]
) -> Path:
    """Return the library of these files, built unless a valid one is cached.

    `made_by` describes the tools; `build` compiles a folder of the files to a library at a path.

    Raises: ArtifactError if the cache cannot be written
    """
    made_of = [*files, *files.values(), *made_by, processor()]
    folder = cache_folder() / digest("\0".join(made_of).encode(errors="surrogateescape"))
    try:
        return _valid(folder, name) or _built(folder, name, files, build)
    except OSError as error:
        raise ArtifactError(
            "the cache of compiled libraries must be a writable folder",
            f"{folder.parent} is not: {reason(error)}",
            "set $CATGRAD_CACHE to a writable folder",
        ) from None


def cache_folder() -> Path:
    """Return the folder of cached libraries."""
    return user_cache() / "c"


def digest(content: bytes) -> str:
    """Return the beginning of a content hash, which names files of the cache."""
    return hashlib.sha256(content).hexdigest()[:24]


def _valid(folder: Path, name: str) -> Path | None:
    """Find the cached library of an entry, unless it is damaged: to load a truncated one ends the process."""
    for library in folder.glob(f"{name}.*.so"):
        if library.name == _file_name(name, library.read_bytes()):
            return library
    return None


def _file_name(name: str, content: bytes) -> str:
    """Name a library after its content hash, by which damage is detected."""
    return f"{name}.{digest(content)}.so"


def _built(folder: Path, name: str, files: Mapping[str, str], build: Callable[[Path, Path], None]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        write_atomically(folder / file, [text.encode()])
    # Concurrent processes each build their own library, and the last one stays.
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        made = Path(temporary) / f"{name}.so"
        build(folder, made)
        library = folder / _file_name(name, made.read_bytes())
        os.replace(made, library)
    return library


@cache
def processor() -> str:
    """Identify the processor by its model and features, on which -march=native depends."""
    machine = f"{sys.platform} {platform.machine()} {platform.processor()}"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return machine
    told = ("model name", "flags", "Features", "CPU part")
    return "\n".join([machine, *dict.fromkeys(line for line in lines if line.startswith(told))])
