"""Node.js processes that run Scratch projects: one for each virtual machine, started when first needed."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
from collections import deque
from pathlib import Path
from threading import Lock, Timer
from typing import Any

import platformdirs

from catgrad.errors import ToolError

from .. import templates

PACKAGES = {
    "vanilla": ("@scratch/scratch-vm", "15.1.1"),
    "turbowarp": ("@turbowarp/packager", "3.13.0"),
}
"""The npm package and its version that each virtual machine comes in."""

LIMIT = 300.0
"""Seconds after which a command that has no answer is given up."""


def missing(vm: str = "vanilla") -> str | None:
    """Why this virtual machine cannot run here, if it cannot."""
    if shutil.which("node") is None:
        return "there is no program `node` (Node.js 18 or newer)"
    package, version = PACKAGES[vm]
    if (packages_folder() / "node_modules" / package).is_dir():
        return None
    install = f"npm install --ignore-scripts --prefix {packages_folder()} {package}@{version}"
    return f"there is no package {package}; `{install}` installs it"


def packages_folder() -> Path:
    """The folder of node_modules: $CATGRAD_SCRATCH, or one in the user's cache."""
    chosen = os.environ.get("CATGRAD_SCRATCH")
    return (
        Path(chosen) if chosen else Path(platformdirs.user_cache_dir("catgrad", appauthor=False)) / "scratch"
    )


class Node:
    """A process that holds projects by session and answers one command at a time."""

    def __init__(self, vm: str) -> None:
        self.dropped: deque[int] = deque()
        self._lock = Lock()
        program, packages = (
            templates("scratch") / "machine.cjs",
            packages_folder().absolute() / "node_modules",
        )
        self._process = subprocess.Popen(
            ["node", "--no-deprecation", str(program), vm, str(packages)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        atexit.register(self.close)

    @property
    def running(self) -> bool:
        """Whether it can take another command."""
        return self._process.poll() is None

    def ask(self, command: str, session: int = 0, *, limit: float = LIMIT, **given: Any) -> Any:
        """The result of a command.

        Raises: ToolError if it fails, or the process ends or takes longer than the limit, in seconds.
        """
        with self._lock:
            if not self.running:
                raise ToolError(
                    f"`{command}` must have a running machine", "it was ended", "load the project again"
                )
            dropped = [self.dropped.popleft() for _ in range(len(self.dropped))]
            line = json.dumps({"command": command, "session": session, "dropped": dropped, **given})
            answered = self._exchange(f"{line}\n".encode(), limit)
        if not answered:
            raise ToolError(
                f"`{command}` must end within {limit:g} seconds", self._end(), "load the project again"
            )
        answer = json.loads(answered)
        if "error" in answer:
            raise ToolError(
                f"`{command}` must succeed", f"Scratch says: {answer['error']}", "mend the project"
            )
        return answer["result"]

    def close(self) -> None:
        """End the process."""
        atexit.unregister(self.close)
        self._process.kill()
        self._process.communicate()

    def _exchange(self, line: bytes, limit: float) -> bytes:
        assert self._process.stdin and self._process.stdout
        watch = Timer(limit, self._process.kill)
        watch.daemon = True
        watch.start()
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
            return self._process.stdout.readline()
        except OSError:  # it has ended
            return b""
        finally:
            watch.cancel()

    def _end(self) -> str:
        _, said = self._process.communicate()
        told = said.decode(errors="replace").strip().splitlines()
        error = next((line for line in told if "Error" in line), "")
        return f"Node.js ended: {error}" if error else "it did not, and was ended"


_running: dict[str, Node] = {}


def running(vm: str) -> Node:
    """The process of this virtual machine. Raises: ToolError if there can be none."""
    reason = missing(vm)
    if reason:
        raise ToolError("running Scratch must have Node.js and a virtual machine", reason, "install it")
    if vm not in _running or not _running[vm].running:
        _running[vm] = Node(vm)
    return _running[vm]
