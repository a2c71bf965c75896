"""The trainer of the character GPT as a process: its memory beside PyTorch's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import Competitor, Process
from catgrad.errors import CatgradError

STEPS = 10


@dataclass(frozen=True)
class Trainer:
    """The most memory that each process held, in bytes, or why it is not known."""

    memory: dict[str, int]
    reasons: dict[str, str]


def trainer(place: Path, both: Sequence[Competitor], target: str) -> Trainer:
    """What ours and the first peer hold when all they do is train."""
    memory: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for competitor in both:
        try:
            memory[competitor.name] = trained(competitor, place)
        except CatgradError as error:
            reasons[competitor.name] = error.found
    return Trainer(memory, reasons)


def trained(competitor: Competitor, place: Path) -> int:
    """The most memory of a process that has made a few steps and nothing else."""
    with Process(competitor, place, 1) as process:
        process.answer()
        process.ask("prepare", measure="step")
        process.ask("time", measure="step", times=STEPS)
        return int(process.ask("memory")["bytes"])
