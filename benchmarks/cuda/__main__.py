"""`python -m benchmarks.cuda`."""

import typer

from benchmarks.cuda.command import main

typer.run(main)
