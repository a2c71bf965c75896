"""Memory of a process that trains the character GPT, compared with PyTorch."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.cpu.rows import MEMORY
from benchmarks.cpu.workloads import chosen
from benchmarks.processes import Competitor, Process
from benchmarks.records import Row
from catgrad import emit
from catgrad.errors import CatgradError, ToolError
from catgrad.formats import safetensors

STEPS = 10


def trainer(place: Path, both: Sequence[Competitor]) -> Row:
    """Measure the peak memory of catgrad and the first peer in bytes."""
    found: dict[str, dict[str, Any]] = {}
    for competitor in both:
        try:
            found[competitor.name] = {"bytes": trained(competitor, place)}
        except CatgradError as error:
            found[competitor.name] = {"reason": error.found}
    return Row(MEMORY, found)


def trained(competitor: Competitor, place: Path) -> int:
    """Return the peak memory of a process that only makes a few steps."""
    if competitor.word == "c":
        return machine.most_memory(["./train", "--epochs", str(STEPS)], program(place))
    with Process(competitor, place, 1) as process:
        process.answer()
        process.ask("prepare", measure="step")
        process.ask("time", measure="step", times=STEPS)
        return int(process.ask("memory")["bytes"])


def program(place: Path) -> Path:
    """Build the emitted training program with a batch as its data; return its folder."""
    [workload] = chosen(place.name)
    folder = place / "program"
    emit(workload.task, "c").write(folder)
    safetensors.write(folder / "data.safetensors", workload.data())
    done = subprocess.run(["make", "--silent", "train"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.splitlines() or ["no word"])[-1]
        raise ToolError("make must build the emitted program", f"it failed: {last}", "run it in its folder")
    return folder
