"""Build trainers for this machine and for a Cortex-M4 of QEMU, and run them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np
from catgrad.backends.c import compiler
from catgrad.backends.c.cross import SIZE, SIZE_FLAGS, Machine, said, zig

from benchmarks.harness import ROOT
from benchmarks.machine import workspaces
from catgrad import Task, emit
from catgrad.tools import Executable

FOLDER = ROOT / "benchmarks" / "tiny"

QEMU = Executable(
    name="QEMU", names=("qemu-system-arm",), install="apt install qemu-system-arm", use="instructions"
)
BOARD = (
    "-M", "mps2-an386", "-display", "none", "-monitor", "none", "-serial", "none", "-icount", "shift=0",
    "-chardev", "stdio,id=told", "-semihosting-config", "enable=on,target=native,chardev=told",
)  # fmt: skip


class Hosted(NamedTuple):
    """The figures of a trainer on this machine; `total` is a weighted sum of outputs after one step."""

    parameter_bytes: int
    training_bytes: int
    total: float
    seconds: float


class Board(NamedTuple):
    """The figures of a trainer on a microcontroller: bytes, instructions of a step, and `total` as above."""

    code: int
    variables: int
    stack: int | None = None
    instructions: int | None = None
    total: float | None = None


def write(folder: Path, task: Task, bound: float) -> int:
    """Write the emitted library, and the trainer around it; returns the bytes of a step's workspace.

    Parameters are at most `bound` at first.
    """
    artifact = emit(task, "c")
    artifact.write(folder)
    told = json.loads(artifact.files["manifest.json"])
    [x], [y_hat] = task.inputs, task.outputs
    step, predict = workspaces(artifact.load().library)
    (folder / "trainer.c").write_text(
        rendered(
            "catgrad.c.j2",
            name=told["prefix"],
            tables={t: sized(a) for t, a in told["tables"].items()},
            inputs=x.size,
            outputs=y_hat.size,
            batch=x.shape[0],
            classes=task.targets != task.outputs,
            workspace=max(step, predict),
            bound=bound,
        )
    )
    return step


def sized(arrays: Iterable[dict[str, Any]]) -> list[dict[str, object]]:
    """Add their numbers of elements to arrays of a manifest."""
    return [{**array, "size": prod(array["shape"])} for array in arrays]


def rendered(template: str, **variables: object) -> str:
    """Return the text of a template."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(**variables)


def hosted(folder: Path, sources: Sequence[Path | str], *options: str) -> Path:
    """Build a trainer for this machine; returns the program. Raises: ToolError."""
    binary = folder / "trainer"
    flags = [*compiler.FLAGS, "-I", str(FOLDER), *options]
    said(
        [*compiler.COMPILER.command(), *flags, *map(str, sources), FOLDER / "hosted.c", "-o", binary, "-lm"],
        folder,
    )
    return binary


def trained(binary: Path, steps: int) -> Hosted:
    """Run a trainer on this machine. Raises: ToolError."""
    parameters, training, total, seconds = said([binary, steps], binary.parent).split()
    return Hosted(int(parameters), int(training), float(total), float(seconds))


def missing() -> str | None:
    """Return why nothing can be built for a microcontroller, if so."""
    return zig().missing()


def on_board(
    folder: Path, sources: Sequence[Path | str], *options: str, machine: Machine | None = None
) -> Board:
    """Build a trainer for a Cortex-M4, and run one step in QEMU, if it is installed. Raises: ToolError."""
    machine = machine or zig()
    flags = [*SIZE_FLAGS, "-Os", "-I", FOLDER, *options, "-T", FOLDER / "cortex_m4.ld", "-Wl,-e,reset"]
    files = [*sources, FOLDER / "cortex_m4.c", *machine.libraries]
    said([*machine.command, *flags, *files, "-o", "board"], folder)
    text, data, bss, *_ = map(int, said([*SIZE.command(), "board"], folder).splitlines()[1].split()[:3])
    if not QEMU.is_installed():
        return Board(text, data + bss)
    told = said([*QEMU.command(), *BOARD, "-kernel", "board"], folder)
    tick, ticks, stack, bits = map(int, told.split())
    [total] = np.array([bits], np.uint32).view(np.float32).tolist()
    return Board(text, data + bss, stack, tick * ticks, total)
