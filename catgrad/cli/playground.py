"""The command `playground`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from catgrad.cli.commands import Model, _named, app
from catgrad.cli.models import find, guarded
from catgrad.cli.tables import show_paths

SAMPLES = "samples"
"""The name of the function that returns the samples of a model, in its module."""


@app.command()
def playground(
    model: Model,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The page to write.")
    ] = "playground.html",
    samples: Annotated[
        str,
        typer.Option(
            "--samples",
            metavar="MODULE:NAME",
            help="A `catgrad.playground.Samples`, or a function that returns one, to train on. By default "
            "the function `samples` in the module of the model; without one, the page does not train.",
        ),
    ] = "",
    target: Annotated[
        list[str],
        typer.Option(
            "--target",
            "-t",
            metavar="NAME",
            help="A target whose source is shown; may be repeated. By default numpy, c, torch, javascript, "
            "cuda and scratch; javascript, which trains, is always there.",
        ),
    ] = [],
) -> None:
    """Write a page that shows a model's diagram and its sources side by side, and trains it in the browser.

    It is one file that needs no network: open it, mail it, or put it on any server.

    Example: `catgrad playground catgrad.examples.iris:hidden -o iris.html`
    """
    from catgrad.learn.task import Task
    from catgrad.playground import TARGETS, Samples, write

    file = _named(output, "page")
    task = find(model, (Task,), "a Task", "Task(...)")
    module = model.rpartition(":")[0]
    if not samples and hasattr(sys.modules.get(module), SAMPLES):
        samples = f"{module}:{SAMPLES}"
    found = find(samples, (Samples,), "Samples", "Samples(x, y, batch)") if samples else None
    with guarded(f"{model} must have a page", "mend the model, its loss or its samples"):
        write(Path(file), task, found, target or TARGETS)
    show_paths([file])
