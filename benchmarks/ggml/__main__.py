"""`python -m benchmarks.ggml`."""

import typer

from benchmarks.ggml.command import main

typer.run(main)
