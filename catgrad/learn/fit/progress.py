"""A progress bar on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from catgrad.learn.fit.history import History

PERIOD = 0.1
"""Seconds between two updates of the bar, as a step may be faster than drawing it."""


@contextmanager
def progress_bar(history: History, total: int | None, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Yield a function to call after each step with its number of examples, which updates a bar.

    The bar has `total` steps, if that is known, and the examples a second since it was shown first.

    Without a terminal, only the last state is printed.
    """
    if not shown:
        yield lambda examples: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    # In a narrow terminal, the text is cut off, and not the number of steps.
    width = len(f"{total}/{total}")
    steps = MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=width))
    columns = (BarColumn(), steps, TextColumn("{task.description}"), TimeRemainingColumn())
    due, begin, done = 0.0, monotonic(), 0
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("", total=total)

        def show(examples: int) -> None:
            nonlocal due, done
            now, done = monotonic(), done + examples
            if now >= due:
                text = summary(history, done / max(now - begin, PERIOD))
                progress.update(bar, completed=len(history.losses), description=text)
                due = now + PERIOD

        try:
            yield show
        finally:
            due = 0.0
            show(0)


def summary(history: History, rate: float) -> str:
    """Summarise the last epoch, loss and evaluation, and the rate in examples a second."""
    words = [f"epoch {len(history.epochs)}"] if history.epochs else []
    words += [f"loss {history.losses[-1]:.4f}"] if history.losses else []
    if history.epochs:
        words += [f"validation {name} {value:.4f}" for name, value in history.epochs[-1].validation.items()]
    return ", ".join([*words, f"{rate:,.0f} examples/s"])
