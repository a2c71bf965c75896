"""`python -m benchmarks.browser`."""

import typer

from benchmarks.browser.command import main

typer.run(main)
