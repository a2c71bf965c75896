"""Sunspots: an LSTM that forecasts the number of sunspots of a year from the previous 32 years.

    python -m catgrad.examples.lstm --plot sunspots.png

Prints the emitted training step, with a loop over time, trains on emitted code only, and prints its error
on the years since 1950, compared with repeating the previous year.
Data: yearly sunspot numbers from 1700 to 2008, Royal Observatory of Belgium.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import typer

from catgrad import Dim, NdArrayType, Task, build, data, emit, fit, layers, losses, ops, optimisers
from catgrad.playground import Samples, View

from .options import BatchSize, Plot, Seed, Steps, Target, run
from .source import training_step

DATA = Path(__file__).parent / "data" / "sunspots.csv"
YEARS, HIDDEN, FIRST_HELD_OUT = 32, 24, 1950
SCALE = 100.0  # about the maximum number of sunspots in a year
BATCH = Dim("batch")


def lstm() -> Task:
    """Return an LSTM over the years, and a linear map of its last state."""
    years, one, hidden = NdArrayType((BATCH, YEARS)), NdArrayType((1,)), NdArrayType((HIDDEN,))

    def last(h: Any) -> Any:
        return ops.reshape(ops.slice(h, (0, YEARS - 1, 0), (BATCH, 1, HIDDEN)), BATCH, HIDDEN)

    model = (
        layers.lstm(years, one, hidden)
        >> build(last, [years + hidden])
        >> layers.dense(NdArrayType((BATCH,)), hidden, one, layers.identity, "next")
    )
    return Task(model, optimisers.adam(3e-3), losses.huber, "lstm")


def load() -> tuple[np.ndarray, np.ndarray]:
    """Load the years and their numbers of sunspots."""
    table = data.read(DATA)
    return table["year"].astype(int), table["sunspots"].astype(np.float32)


def windows(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return windows of years, and the next year of each: [n, years, 1] and [n, 1], scaled."""
    stretches = np.lib.stride_tricks.sliding_window_view(numbers / SCALE, YEARS + 1)[..., None]
    return np.ascontiguousarray(stretches[:, :YEARS]), np.ascontiguousarray(stretches[:, YEARS])


def samples() -> Samples:
    """Return the windows of all years for a page, which `catgrad playground` writes."""
    x, y = windows(load()[1])
    note = "Sunspots in hundreds, 1732 to 2008; each year is predicted from the 32 years before it."
    return Samples(x, y, batch=32, view=View.SERIES, title="Sunspots", note=note)


def main(
    target: Target = "numpy",
    steps: Steps = 1500,
    seed: Seed = 0,
    batch_size: BatchSize = 32,
    plot: Plot = None,
) -> None:
    """Train an LSTM on yearly sunspot numbers, on emitted source only."""
    years, numbers = load()
    x, y = windows(numbers)
    later = years[YEARS:] >= FIRST_HELD_OUT
    artifact = emit(lstm(), target)
    typer.echo(training_step(artifact.source))
    learner = artifact.load()().learner(seed)
    history = fit(learner, (x[~later], y[~later]), steps=steps, batch_size=batch_size, seed=seed)
    foretold, actual = (SCALE * np.asarray(a)[:, 0] for a in (learner.predict(x[later]), y[later]))
    same = SCALE * x[later, -1, 0]
    error, naive = (np.abs(guess - actual).mean() for guess in (foretold, same))
    typer.echo(f"error: {error:.1f} sunspots a year since {FIRST_HELD_OUT}, {naive:.1f} by the year before")
    if plot is not None:
        from .plots import losses_and_series

        known = years[YEARS:][later]
        losses_and_series(plot, history.losses, known, {"sunspots": actual, "foretold": foretold})
        typer.echo(f"plot: {plot}")


if __name__ == "__main__":
    run(main)
