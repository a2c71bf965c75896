"""Node.js processes that run Scratch projects: one for each virtual machine, started when first needed."""

from __future__ import annotations

import json
import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catgrad.errors import ToolError
from catgrad.files import user_cache
from catgrad.tools import Executable, Tool, version_in

from ... import templates
from ...host.process import MAX_ANSWER_SECONDS, JsonProcess

PACKAGES = {"vanilla": ("@scratch/scratch-vm", "15.1.1"), "turbowarp": ("@turbowarp/packager", "3.13.0")}
"""The npm package and its version that each virtual machine comes in."""


@dataclass(frozen=True, kw_only=True)
class NodePackage(Tool):
    """A package of npm, in the folder of those that Scratch needs."""

    @property
    def folder(self) -> Path:
        """Return the folder that npm would install it in."""
        return packages_folder() / "node_modules" / self.name

    def is_installed(self) -> bool:
        """Tell whether its folder exists."""
        return self.folder.is_dir()

    def remedy(self) -> str:
        """Say which command installs it, and where."""
        return f"npm install --ignore-scripts --prefix {packages_folder()} {self.install}"

    def version(self) -> str:
        """Read it from its own description."""
        try:
            return version_in(str(json.loads((self.folder / "package.json").read_text("utf-8"))["version"]))
        except (OSError, ValueError, LookupError, TypeError):
            return ""


NODE = Executable(name="Node.js", names=("node",), install="install Node.js 18 or newer, from nodejs.org")
MACHINES = {
    vm: NodePackage(name=package, install=f"{package}@{version}", use="" if vm == "vanilla" else f"vm={vm}")
    for vm, (package, version) in PACKAGES.items()
}
CHROMIUM = Executable(
    name="Chromium",
    names=("chromium", "chromium-browser", "google-chrome"),
    install="apt install chromium",
    use="tests in Scratch's editor",
)

NEEDS = (NODE, *MACHINES.values(), CHROMIUM)


def missing(vm: str = "vanilla") -> str | None:
    """Return the reason that this virtual machine cannot run here, if it cannot."""
    return NODE.missing() or MACHINES[vm].missing()


def packages_folder() -> Path:
    """Return the folder of node_modules: $CATGRAD_SCRATCH, or one in the user's cache."""
    return Path(os.environ.get("CATGRAD_SCRATCH") or user_cache() / "scratch").absolute()


class Node(JsonProcess):
    """A process that holds projects by session and answers one command at a time."""

    def __init__(self, vm: str) -> None:
        self.dropped: deque[int] = deque()
        program, packages = templates("scratch") / "machine.cjs", packages_folder() / "node_modules"
        super().__init__(NODE.name, ["node", "--no-deprecation", program, vm, packages])

    def ask(
        self, command: str, session: int = 0, *, limit: float = MAX_ANSWER_SECONDS, **arguments: Any
    ) -> Any:
        """Send a command; returns its result.

        Raises: ToolError if it fails, or the process ends or takes longer than the limit, in seconds.
        """
        dropped = [self.dropped.popleft() for _ in range(len(self.dropped))]
        message = {"command": command, "session": session, "dropped": dropped, **arguments}
        answer = self.exchange(command, message, limit)
        if "error" in answer:
            raise ToolError(
                f"`{command}` must succeed",
                f"the machine says: {answer['error']}",
                "correct the project or the arguments",
            )
        return answer["result"]


_running: dict[str, Node] = {}


def running(vm: str) -> Node:
    """Return the process of this virtual machine. Raises: ToolError if there can be none."""
    for tool in (NODE, MACHINES[vm]):
        tool.require("running Scratch")
    if vm not in _running or not _running[vm].running:
        _running[vm] = Node(vm)
    return _running[vm]
