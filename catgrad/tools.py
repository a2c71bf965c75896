"""External tools and packages: detection, version, and advice for installation."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

from catgrad.errors import ToolError, one_line

SECONDS = 2.0
"""Seconds in which a program must print its version before it is killed."""

MOST_OUTPUT = 4096
"""Bytes of output that are read; some programs never stop."""

LONGEST_VERSION = 40
"""The maximum length of a version that is shown."""


@dataclass(frozen=True, kw_only=True)
class Tool(ABC):
    """A program or a package that a target needs, or only for one `use`, and how to install it."""

    name: str
    install: str
    use: str = ""

    def missing(self) -> str | None:
        """Return why it cannot be used, and what to do about it; None if it can."""
        return None if self.is_installed() else f"{self.absence()}; {self.remedy()}"

    def require(self, what: str) -> None:
        """Raise ToolError unless it is installed."""
        if not self.is_installed():
            raise ToolError(f"{what} must have {self.name}", self.absence(), self.remedy())

    def absence(self) -> str:
        """Return the sentence that it is missing."""
        return f"there is no {self.name}"

    def remedy(self) -> str:
        """Return how to install it."""
        return self.install

    @abstractmethod
    def is_installed(self) -> bool:
        """Return whether it is installed, without running or importing it."""

    @abstractmethod
    def version(self) -> str:
        """Return its version; empty if unknown."""


@dataclass(frozen=True, kw_only=True)
class Package(Tool):
    """A Python package, by the name under which it is imported and installed."""

    module: str

    def is_installed(self) -> bool:
        """Look for it on the path; a folder without `__init__.py` is no package."""
        spec = find_spec(self.module)
        return spec is not None and spec.origin is not None

    def version(self) -> str:
        """Return the version in the metadata of the installation."""
        try:
            return version_in(metadata.version(self.module))
        except Exception:  # the metadata may be damaged in any way
            return ""


@dataclass(frozen=True, kw_only=True)
class Executable(Tool):
    """The first program with one of these names on the PATH or beside Python, or a variable's command."""

    names: tuple[str, ...]
    flag: str = "--version"
    variable: str = ""

    def command(self) -> list[str]:
        """Return the path, with the options in the variable; empty if there is no such program."""
        chosen = _words(os.environ.get(self.variable, ""))
        for name, *options in [chosen] if chosen else [[name] for name in self.names]:
            path = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
            if path:
                return [os.path.abspath(path), *options]
        return []

    def is_installed(self) -> bool:
        """Look for it on the PATH."""
        return bool(self.command())

    def absence(self) -> str:
        """Return the names it is searched by."""
        chosen = os.environ.get(self.variable, "").strip()
        if chosen:
            return f"there is no {self.name}: ${self.variable} is {chosen!r}, which names no program"
        if len(self.names) == 1:
            return f"there is no program `{self.names[0]}`"
        return f"there is no {self.name}: none of {', '.join(self.names)} is one"

    def version(self) -> str:
        """Run it with its version flag."""
        return version_in(_output([*self.command(), self.flag]))


def version_in(text: str) -> str:
    """Return the first version number in a text, or else its first line, shortened."""
    number = re.search(r"\d+(\.\d+)+", text)
    line = next((one_line(line.strip()) for line in text.splitlines() if line.strip()), "")
    return number[0][:LONGEST_VERSION] if number else line[:LONGEST_VERSION]


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # an unterminated quotation: no program has that name
        return [command]


def _output(command: list[str]) -> str:
    """Return the beginning of the output of a command; empty if it cannot be run in time."""
    said = bytearray()
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        process = subprocess.Popen(command, bufsize=0, start_new_session=True, **pipes)  # type: ignore[call-overload]
    except (OSError, ValueError):
        return ""

    def read() -> None:
        while len(said) < MOST_OUTPUT and (piece := process.stdout.read(MOST_OUTPUT)):
            said.extend(piece)

    # A daemon thread: children that outlive the program may keep its output open.
    reader = Thread(target=read, daemon=True)
    reader.start()
    reader.join(SECONDS)
    _kill_group(process)
    process.wait()
    reader.join(SECONDS / 10)
    if not reader.is_alive():
        process.stdout.close()
    return bytes(said).decode(errors="replace")


def run(
    command: Sequence[str],
    limit: float,
    *,
    input: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, in this folder and environment, and return what it said.

    It is killed after `limit` seconds, and if an exception interrupts the wait, as Ctrl-C or the timeout of
    a test does. So are its children, like those of a compiler.

    Raises: OSError if it is no program; TimeoutExpired of `subprocess`
    """
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, errors="replace", cwd=cwd, env=env,
        start_new_session=True,
    )  # fmt: skip
    with process:
        try:
            output, said = process.communicate(input, limit)
        except BaseException:
            _kill_group(process)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, said)


def _kill_group(process: subprocess.Popen[Any]) -> None:
    """Kill a process that began a session, and its children."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:  # Windows has no process groups
            process.kill()
