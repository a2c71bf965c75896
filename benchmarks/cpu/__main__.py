"""`python -m benchmarks.cpu`."""

import typer

from benchmarks.cpu.command import main

typer.run(main)
