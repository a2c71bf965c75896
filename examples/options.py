"""The options all examples take, and the progress bar they show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from catgrad import CatgradError

Target = Annotated[str, typer.Option(help="What to compile to; `catgrad targets` lists them.")]
Steps = Annotated[int, typer.Option(min=1, help="How many steps to train.")]
Seed = Annotated[int, typer.Option(min=0, help="Decides the first parameters and the batches.")]
BatchSize = Annotated[int, typer.Option(min=1, help="How many examples a step sees.")]
Plot = Annotated[Path | None, typer.Option(help="Write a picture of the training here (PNG, SVG or PDF).")]


def batches(x: np.ndarray, y: np.ndarray, size: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Endless batches: every example once in each pass, shuffled unless a batch holds them all."""
    rng = np.random.default_rng(seed)
    while size >= len(x):
        yield x, y
    while True:
        order = rng.permutation(len(x))
        for start in range(0, len(x), size):
            chosen = order[start : start + size]
            yield x[chosen], y[chosen]


def train(step: Callable[[Any, Any], Any], data: Iterator[tuple[Any, Any]], steps: int) -> list[float]:
    """Call `step` on batches under a progress bar; returns the loss before each step."""
    losses = []
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[loss]}"))
    with Progress(*columns, TimeRemainingColumn()) as progress:
        bar = progress.add_task("", total=steps, loss="")
        for count, (x, y) in zip(range(1, steps + 1), data, strict=False):
            losses.append(float(step(x, y)))
            if count % max(steps // 100, 1) == 0 or count == steps:
                progress.update(bar, completed=count, loss=f"loss {losses[-1]:.4f}")
    return losses


def run(main: Callable[..., None]) -> None:
    """Run an example's command line; an error is one sentence and exit status 2."""
    try:
        typer.run(main)
    except CatgradError as error:
        typer.secho(str(error), fg="red", err=True)
        raise SystemExit(2) from None
