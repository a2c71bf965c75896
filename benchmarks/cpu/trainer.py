"""Memory of a process that trains the character GPT, compared with PyTorch."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine
from benchmarks.cpu.workloads import chosen
from benchmarks.processes import Competitor, Process
from catgrad import emit
from catgrad.errors import CatgradError, ToolError
from catgrad.formats import safetensors

STEPS = 10


@dataclass(frozen=True)
class Trainer:
    """The peak memory of each process in bytes, or the reason why it is unknown."""

    memory: dict[str, int]
    reasons: dict[str, str]


def trainer(place: Path, both: Sequence[Competitor]) -> Trainer:
    """Measure catgrad and the first peer."""
    memory: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for competitor in both:
        try:
            memory[competitor.name] = trained(competitor, place)
        except CatgradError as error:
            reasons[competitor.name] = error.found
    return Trainer(memory, reasons)


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
