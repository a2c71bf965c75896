"""Timing of sprites in Scratch's virtual machines: the processor time of a custom block in a loop."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from catgrad.backends.scratch.assemble import sprite3
from catgrad.backends.scratch.language import spell
from catgrad.backends.scratch.machine.projects import Machine

LOOP = """
sprite benchmark
    variable `benchmark repeats` = 1

    define {block}

    define benchmark
        repeat `benchmark repeats`
            call {block}

    when I receive benchmark
        call benchmark
"""
"""A script that runs a custom block many times; that block itself is empty here."""


@dataclass(frozen=True)
class Sprite:
    """A file with the custom block to time, and the values of its shared lists and variables."""

    name: str
    file: bytes
    block: str
    lists: Mapping[str, np.ndarray] = field(default_factory=dict)
    variables: Mapping[str, float] = field(default_factory=dict)

    @property
    def json(self) -> bytes:
        """The content of the file, uncompressed."""
        return unzipped(self.file)["sprite.json"]

    @property
    def blocks(self) -> int:
        """The number of blocks, without variables and literals in slots."""
        return sum(isinstance(block, dict) for block in json.loads(self.json)["blocks"].values())

    def loaded(self, vm: str, repeated: bool = False) -> Machine:
        """Return a virtual machine with the sprite, and optionally with a script that repeats its block."""
        machine = Machine(vm)
        machine.load(repeating(self.file, self.block) if repeated else self.file)
        for name, items in self.lists.items():
            machine.set_list(name, items)
        for name, value in self.variables.items():
            machine.set_variable(name, value)
        return machine

    def output(self, vm: str) -> np.ndarray:
        """Return the list `output` after one call."""
        machine = self.loaded(vm)
        machine.call(self.block)
        return machine.array("output")


def repeating(file: bytes, block: str) -> bytes:
    """Return a sprite with the script LOOP about one of its custom blocks."""
    files = unzipped(file)
    sprite = json.loads(files["sprite.json"])
    loop = json.loads(unzipped(sprite3(LOOP.format(block=spell.name(block)), {}))["sprite.json"])
    prototypes = {
        key
        for key, it in loop["blocks"].items()
        if it.get("mutation", {}).get("proccode") == block and it.get("shadow")
    }
    empty = prototypes | {loop["blocks"][key]["parent"] for key in prototypes}
    sprite["blocks"] |= {key: it for key, it in loop["blocks"].items() if key not in empty}
    sprite["variables"] |= loop["variables"]
    files["sprite.json"] = json.dumps(sprite).encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        for name, content in files.items():
            written.writestr(name, content)
    return archive.getvalue()


def unzipped(file: bytes) -> dict[str, bytes]:
    """Return the files in an archive by name."""
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@dataclass(frozen=True)
class Race:
    """The number of rounds, the approximate seconds of one sprite in each, and those of the warm-up."""

    rounds: int
    seconds: float
    warm_up: float

    def run(self, sprites: Sequence[Sprite], vm: str) -> list[float]:
        """Return the minimum processor time of a call of each block, measured alternately."""
        machines = [sprite.loaded(vm, repeated=True) for sprite in sprites]
        repeats = [self._repeats(machine) for machine in machines]
        taken: list[list[float]] = [[] for _ in sprites]
        for _ in range(self.rounds):
            for machine, count, times in zip(machines, repeats, taken, strict=True):
                times.append(call(machine, count))
        return [min(times) for times in taken]

    def _repeats(self, machine: Machine) -> int:
        """The number of calls in a round, determined after the warm-up, in which machines compile."""
        count, spent, taken = 1, 0.0, 0.0
        while spent < self.warm_up or taken * count < self.seconds / 2:
            taken = call(machine, count)
            spent += taken * count
            count = ceil(min(count * 10, self.seconds / max(taken, 1e-9)))
        return count


def call(machine: Machine, repeats: int) -> float:
    """Return the processor time of one call of the block, the mean over repeats."""
    machine.set_variable("benchmark repeats", repeats)
    return machine.seconds("benchmark", 1) / repeats
