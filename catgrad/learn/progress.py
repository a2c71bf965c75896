"""A progress bar on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from catgrad.learn.history import History

PERIOD = 0.1
"""Seconds between two updates of the bar, as a step may be faster than drawing it."""


@contextmanager
def progress_bar(history: History, total: int | None, shown: bool = True) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each step, which updates a bar of `total` steps, if known.

    Without a terminal, only the last state is printed.
    """
    if not shown:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    due = 0.0
    with Progress(TextColumn("training"), *columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("", total=total)

        def show() -> None:
            nonlocal due
            if monotonic() >= due:
                progress.update(bar, completed=len(history.losses), description=summary(history))
                due = monotonic() + PERIOD

        try:
            yield show
        finally:
            due = 0.0
            show()


def summary(history: History) -> str:
    """Summarise the last epoch, loss and evaluation."""
    words = [f"epoch {len(history.epochs)}"] if history.epochs else []
    words += [f"loss {history.losses[-1]:.4f}"] if history.losses else []
    if history.epochs:
        words += [f"validation {name} {value:.4f}" for name, value in history.epochs[-1].validation.items()]
    return ", ".join(words)
