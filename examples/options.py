"""Options of all examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from catgrad import CatgradError

Target = Annotated[str, typer.Option(help="What to compile to; `catgrad targets` lists them.")]
Steps = Annotated[int, typer.Option(min=1, help="How many steps to train.")]
Seed = Annotated[int, typer.Option(min=0, help="Decides the first parameters and the batches.")]
BatchSize = Annotated[int, typer.Option(min=1, help="How many examples a step sees; in Scratch 10 at most.")]
IN_SCRATCH = 10
Project = Annotated[Path, typer.Option(help="With the target scratch: write the trained project here.")]
Plot = Annotated[Path | None, typer.Option(help="Write a picture of the training here (PNG, SVG or PDF).")]


def run(main: Callable[..., None]) -> None:
    """Run an example's command line; an error is one sentence and exit status 2."""
    try:
        typer.run(main)
    except CatgradError as error:
        typer.secho(str(error), fg="red", err=True)
        raise SystemExit(2) from None
