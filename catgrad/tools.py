"""Programs and packages of this machine: whether they are here, in which version, and how to get them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
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
"""Time in which a program must say its version, or it is ended."""

MOST_OUTPUT = 4096
"""Bytes that are read of what a program says; some never stop."""

LONGEST_VERSION = 40
"""Characters of a version that are shown."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A program or a package, and how to install it. If `use` names something, only that needs it."""

    name: str
    install: str
    use: str = ""

    def missing(self) -> str | None:
        """Say why it cannot be used here, and what to do about it; None if it can."""
        return None if self.is_here() else f"{self.absence()}; {self.remedy()}"

    def require(self, what: str) -> None:
        """Raise ToolError unless it is here, for something that must have it."""
        if not self.is_here():
            raise ToolError(f"{what} must have {self.name}", self.absence(), self.remedy())

    def absence(self) -> str:
        """Say that it is not here."""
        return f"there is no {self.name}"

    def remedy(self) -> str:
        """Say how to install it."""
        return self.install

    def is_here(self) -> bool:
        """Look for it, without running or importing it."""
        raise NotImplementedError

    def version(self) -> str:
        """Ask for its version; empty if it does not say."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Package(Tool):
    """A Python package, by the name under which it is imported and installed."""

    module: str

    def is_here(self) -> bool:
        """Look for it on the path; a folder without `__init__.py` is no package."""
        spec = find_spec(self.module)
        return spec is not None and spec.origin is not None

    def version(self) -> str:
        """Read it from the metadata of the installation."""
        try:
            return version_in(metadata.version(self.module))
        except Exception:  # metadata can be broken in as many ways as files can
            return ""


@dataclass(frozen=True, kw_only=True)
class Executable(Tool):
    """The first program on the PATH of these names, or the command that the variable holds."""

    names: tuple[str, ...]
    flag: str = "--version"
    variable: str = ""

    def command(self) -> list[str]:
        """Return the path, and the options that the variable may hold; empty if there is no such program."""
        chosen = _words(os.environ.get(self.variable, ""))
        for name, *options in [chosen] if chosen else [[name] for name in self.names]:
            path = shutil.which(name)
            if path:
                return [os.path.abspath(path), *options]
        return []

    def is_here(self) -> bool:
        """Look for it on the PATH."""
        return bool(self.command())

    def absence(self) -> str:
        """Say by which names it was looked for."""
        chosen = os.environ.get(self.variable, "").strip()
        if chosen:
            return f"there is no {self.name}: ${self.variable} is {chosen!r}, which names no program"
        if len(self.names) == 1:
            return f"there is no program `{self.names[0]}`"
        return f"there is no {self.name}: none of {', '.join(self.names)} is one"

    def version(self) -> str:
        """Run it with its flag."""
        return version_in(_said([*self.command(), self.flag]))


def version_in(text: str) -> str:
    """Find the first version number in a text, or else its first line, in short."""
    number = re.search(r"\d+(\.\d+)+", text)
    line = next((one_line(line.strip()) for line in text.splitlines() if line.strip()), "")
    return number[0][:LONGEST_VERSION] if number else line[:LONGEST_VERSION]


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quotation without an end: no program has that name
        return [command]


def _said(command: list[str]) -> str:
    """Read the beginning of what a command says within the time; nothing if it cannot be run."""
    said = bytearray()
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        process = subprocess.Popen(command, bufsize=0, start_new_session=True, **pipes)  # type: ignore[call-overload]
    except (OSError, ValueError):
        return ""

    def read() -> None:
        while len(said) < MOST_OUTPUT and (piece := process.stdout.read(MOST_OUTPUT)):
            said.extend(piece)

    # A thread that can be left behind: children that outlive the program may hold its output open.
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
        else:  # Windows, which has no groups of processes
            process.kill()
