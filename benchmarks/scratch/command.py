"""Speed of sprites, compared with cattorch 0.5.0: `python -m benchmarks.scratch`.

Converts the same PyTorch modules with the same weights, for Scratch's own virtual machine and TurboWarp's.
The peer cannot train, so training steps are compared with its prediction. Its weights are plain numbers
(`compression=False`), with which it is fastest. Times are processor time in Node.js, measured alternately,
the minimum of all rounds. A complete run takes six minutes; `--keep` writes its figures to
benchmarks/results/scratch.json.
"""

from __future__ import annotations

import subprocess
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from catgrad.backends.scratch.machine.projects import missing
from rich.console import Console

from benchmarks import machine, records
from benchmarks.harness import ROOT, errors_in_a_line, peer_python
from benchmarks.options import Keep, Only, Quick
from benchmarks.records import OURS, Row
from benchmarks.scratch import tables as sprite_tables
from benchmarks.scratch.cases import VMS, Case, Net, chosen
from benchmarks.scratch.tables import PEER, kept, line, row_of, size_of
from benchmarks.scratch.timing import Race, Sprite
from catgrad import Task, emit, mse, sgd
from catgrad.errors import CatgradWarning, ToolError
from catgrad.frontends.torch import from_torch

PEERS = ("cattorch==0.5.0", "torch==2.13.0", "numpy==2.4.6")
PATH = records.path_of("scratch")
RATE = 0.1
TOLERANCE = 1e-5
"""The tolerance of outputs against PyTorch in float64."""
FULL, QUICK = Race(rounds=25, seconds=0.15, warm_up=3), Race(rounds=2, seconds=0.05, warm_up=0.3)
CONSOLE = Console(width=150)


@dataclass(frozen=True)
class Made:
    """A model with an example, and the expected output of its sprites."""

    net: Net
    task: Task
    weights: Mapping[str, np.ndarray]
    example: np.ndarray

    def ours(self, case: Case, outputs: int) -> Sprite:
        """Return the sprite of catgrad, optionally with a training step."""
        train = case.block != "predict"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CatgradWarning)  # of many blocks, which the tables list too
            functions = ["predict", *(["step"] if train else [])]
            artifact = emit(self.task, "scratch", functions, weights=self.weights, unroll=case.unroll)
        lists = {"input": self.example.reshape(-1)} | ({"target": np.eye(outputs)[0]} if train else {})
        variables = {"learning rate": RATE} if train else {}
        return Sprite(case.sprite, artifact.files["net.sprite3"], case.block, lists, variables)

    def peers(self, folder: Path) -> Sprite:
        """Return the sprite of the peer."""
        file = (folder / f"{self.net.name}.sprite3").read_bytes()
        return Sprite(PEER, file, "cattorch forward", {"input": self.example.reshape(-1)})


def made(net: Net, folder: Path) -> Made:
    """Write a model to the folder for the peer, and return it."""
    from benchmarks.peers.sprite_nets import net as build

    module, example = build(net.name)
    arrays = {name: tensor.numpy() for name, tensor in module.state_dict().items()}
    np.savez(folder / f"{net.name}.npz", example=example.numpy(), **arrays)
    imported = from_torch(module, example, name="net")
    return Made(net, Task(imported.model, sgd(RATE), mse, "net"), imported.parameters, example.numpy())


def peer_sprites(nets: Sequence[Net], folder: Path) -> None:
    """Run the peer, which writes its sprites and PyTorch's outputs in float64."""
    python = peer_python("cattorch-0.5", *PEERS)
    command = [python, "-m", "benchmarks.peers.cattorch_sprites", folder, *(net.name for net in nets)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.splitlines() or ["no word"])[-1]
        raise ToolError(f"{PEER} must write its sprites", f"it failed: {last}", "run its module by hand")


def checked(sprite: Sprite, vm: str, right: np.ndarray) -> float:
    """Return the maximum error of its output. Raises: ToolError if it exceeds the tolerance."""
    found = sprite.output(vm)
    error = float(np.abs(found - right).max()) if found.size == right.size else np.inf
    if not error <= TOLERANCE:
        raise ToolError(
            f"{sprite.name} must be within {TOLERANCE:g} of PyTorch in float64",
            f"`{sprite.block}` is {error:g} off on {vm}",
            "correct it before it is timed",
        )
    return error


def measured(made: Made, folder: Path, race: Race) -> tuple[list[Row], list[dict[str, Any]]]:
    """Return the figures of one model, on both machines."""
    right = np.load(folder / f"{made.net.name}.npy").reshape(-1)
    cases = made.net.cases
    sprites = [*(made.ours(case, right.size) for case in cases), made.peers(folder)]
    products = machine.operations(made.task, "predict") // 2
    rows: list[Row] = []
    for vm in VMS:
        errors = [checked(sprite, vm, right) for sprite in sprites]
        *ours, theirs = race.run(sprites, vm)
        rows += [
            row_of(
                made.net.title,
                case,
                vm,
                products,
                {OURS: {"seconds": seconds, "error": error}, PEER: {"seconds": theirs, "error": errors[-1]}},
            )
            for case, seconds, error in zip(cases, ours, errors, strict=False)
        ]
    learns = Case("train step")
    more = [] if learns.sprite in [sprite.name for sprite in sprites] else [made.ours(learns, right.size)]
    return rows, [size_of(made.net.title, sprite) for sprite in [*sprites, *more]]


def run(names: str, quick: bool, keep: bool) -> None:
    """Measure, print and keep."""
    nets, race, busy = chosen(names), QUICK if quick else FULL, machine.busy()
    rows: list[Row] = []
    sizes: list[dict[str, Any]] = []
    with CONSOLE.status("models and peers") as status, tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        models = [made(net, folder) for net in nets]
        peer_sprites(nets, folder)
        for model in models:
            status.update(model.net.title)
            more_rows, more_sizes = measured(model, folder, race)
            rows, sizes = rows + more_rows, sizes + more_sizes
            for row in more_rows:
                CONSOLE.print(line(row), highlight=False)
    sprite_tables.show(CONSOLE, rows, sizes)
    if keep:
        versions = records.versions_of(PEERS)
        kept("python -m benchmarks.scratch --keep", rows, busy, versions, {"sizes": sizes}).keep(PATH)


def main(only: Only = "", quick: Quick = False, keep: Keep = False) -> None:
    """Measure sprites that predict and learn against cattorch's, in two virtual machines."""
    if keep and (quick or only):
        raise typer.BadParameter("--keep is for complete runs, without --quick and --only")
    with errors_in_a_line(CONSOLE):
        for vm in VMS:
            if reason := missing(vm):
                raise ToolError("sprites must be run by Node.js", reason, "install it")
        run(only, quick, keep)
