"""Compilers in tests: what one has written for the same files, command and version comes from the cache.

Like libraries that targets load, programs are compiled once for each text, in all processes and runs.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

from catgrad.backends.c.cache import cache_folder, digest, processor
from catgrad.backends.c.compiler import version

from catgrad import tools

COMPILER = re.compile(r"(.*-)?(cc|gcc|g\+\+|c\+\+|clang|nvcc)")
"""Names of compilers; ziglang has a cache of its own."""

SOURCES = {".c", ".cpp", ".cu", ".cuh", ".h", ".hpp"}
"""Endings of files that others may include."""

LIMIT = 240
"""Seconds for a compiler or a program, fewer than a test has."""


def compiled_once(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a compiler in a folder, or copy what it wrote and said before."""
    words = [str(word) for word in command]
    kept = cache_folder() / _key(words, cwd)
    if not kept.exists():
        before = _times(cwd)
        done = tools.run(words, LIMIT, cwd=cwd)
        if done.returncode != 0:
            return done
        _keep(kept, done, cwd, [path for path, time in _times(cwd).items() if before.get(path) != time])
    shutil.copytree(kept / "made", cwd, dirs_exist_ok=True)
    said = json.loads((kept / "said.json").read_text(encoding="utf-8"))
    return subprocess.CompletedProcess(words, 0, **said)


def _key(words: list[str], folder: Path) -> str:
    """Hash all that decides what a compiler writes: its version, the command, and files that it may read."""
    inputs = [word for before, word in pairwise(words) if before != "-o"]
    named = [folder / word.removeprefix("-I") for word in inputs]
    folders = {folder, *(path if path.is_dir() else path.parent for path in named if path.exists())}
    read = {path for each in folders for path in each.rglob("*") if path.suffix in SOURCES}
    files = sorted(path for path in read.union(named) if path.is_file())
    hashes = [digest(path.read_bytes()) for path in files]
    places = [str(path).replace(str(folder), ".") for path in files]
    # A flag that names the folder, such as -rpath, is written into the program.
    command = [word if word.startswith("-") else word.replace(str(folder), ".") for word in words]
    return digest("\0".join([version((words[0],)), processor(), *command, *places, *hashes]).encode())


def _times(folder: Path) -> dict[Path, int]:
    """Return when each file of a folder was last written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def _keep(kept: Path, done: subprocess.CompletedProcess[str], folder: Path, made: list[Path]) -> None:
    """Copy what a compiler made and said to the cache; of processes that do at once, one does."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=cache_folder()))
    (new / "made").mkdir()
    for path in made:
        to = new / "made" / path.relative_to(folder)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, to)
    said = {"stdout": done.stdout, "stderr": done.stderr}
    (new / "said.json").write_text(json.dumps(said), encoding="utf-8")
    try:
        new.rename(kept)
    except OSError:
        shutil.rmtree(new)
