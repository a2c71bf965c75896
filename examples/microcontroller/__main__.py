"""Train Fisher's irises on a microcontroller, and measure the memory.

    python -m catgrad.examples.microcontroller

Emits the library and a program around it, builds both for machines without an operating system,
prints their sizes, and runs them here to show that the network learns.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from catgrad.backends.c.cross import Machine, cortex_m4

from ..options import Seed, run
from . import build, program

Out = Annotated[Path | None, typer.Option(help="Keep the emitted files in this folder.")]
Epochs = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="How often to see each flower.")]
Weights = Annotated[Path | None, typer.Option(help="Begin with the parameters of this safetensors file.")]


def main(epochs: Epochs = 60, seed: Seed = 0, weights: Weights = None, out: Out = None) -> None:
    """Train on Fisher's irises in 16 KiB of code and 8 KiB of memory."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = out or Path(scratch)
        program.write(folder, epochs, seed, weights)
        for machine in (build.here(), cortex_m4()):
            typer.echo(f"{machine.name}: {machine.missing() or sizes(machine, folder)}")
        if not build.here().missing():
            typer.echo(f"accuracy: {build.right(folder) / program.FLOWERS:.1%} of {program.FLOWERS} flowers")


def sizes(machine: Machine, folder: Path) -> str:
    size = build.measured(machine, folder)
    stack = build.stack(machine, folder)
    return f"{size.code} bytes of code and constants, {size.variables} of variables, at most {stack} of stack"


if __name__ == "__main__":
    run(main)
