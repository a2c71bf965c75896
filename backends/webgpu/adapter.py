"""Node.js with WebGPU, by the package `webgpu` of npm, on a GPU or the software adapter SwiftShader."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from catgrad.tools import Tool, run

from ..host.process import JsonProcess, kept
from ..javascript.session import DRIVER, NODE

CHROMIUM = Path("/usr/lib/chromium")
"""The folder of Debian's Chromium, which has SwiftShader: Vulkan without a GPU."""

HOOK = Path(__file__).parent / "adapter.mjs"
PROBE = "process.exit((await navigator.gpu.requestAdapter()) ? 0 : 1)"
SECONDS = 30


def command(*arguments: str | Path) -> list[str]:
    """Return the command by which Node.js runs with WebGPU."""
    return ["node", "--import", HOOK.as_uri(), *map(str, arguments)]


def _software() -> dict[str, str]:
    """Return the variables by which Vulkan is found in Chromium's folder."""
    folder = str(CHROMIUM)
    return {"VK_ICD_FILENAMES": f"{folder}/vk_swiftshader_icd.json", "LD_LIBRARY_PATH": folder}


@cache
def environment() -> dict[str, str] | None:
    """Return the variables by which an adapter is found: none, or those for SwiftShader."""
    for variables in ({}, _software()):
        probe = command("--input-type=module", "--eval", PROBE)
        try:
            done = run(probe, SECONDS, env={**os.environ, **variables})
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode == 0:
            return variables
    return None


@dataclass(frozen=True, kw_only=True)
class Adapter(Tool):
    """An adapter of WebGPU in Node.js."""

    def is_installed(self) -> bool:
        """Look for one."""
        return NODE.is_installed() and environment() is not None

    def version(self) -> str:
        """Return the version of Node.js."""
        return NODE.version()


ADAPTER = Adapter(
    name="WebGPU adapter in Node.js",
    install="`npm install webgpu` here or in $NODE_PATH, and install a Vulkan driver or Debian's chromium",
)


@kept
def node() -> JsonProcess:
    """Return the process that runs all modules."""
    ADAPTER.require("running WebGPU")
    variables = [f"{name}={value}" for name, value in (environment() or {}).items()]
    # Dawn prints warnings to standard output, which becomes standard error; answers have a pipe of their own.
    apart = ["sh", "-c", 'exec "$@" 3>&1 1>&2', "sh"]
    return JsonProcess(NODE.name, [*apart, "env", *variables, *command(DRIVER, "3")])
