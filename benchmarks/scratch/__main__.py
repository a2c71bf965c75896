"""`python -m benchmarks.scratch`."""

import typer

from benchmarks.scratch.command import main

typer.run(main)
