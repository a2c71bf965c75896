"""The options that commands of benchmarks share."""

from __future__ import annotations

from typing import Annotated

import typer

FULL, QUICK = (11, 0.2), (3, 0.05)
"""The number of rounds, and the seconds of one competitor in each."""

Only = Annotated[str, typer.Option(help="Measure only these rows, by name, with commas between.")]
Quick = Annotated[bool, typer.Option("--quick", help="Few short rounds, to see that all is well.")]
Keep = Annotated[
    bool, typer.Option("--keep", help="Put the rows in place of those in benchmarks/results, and in pages.")
]
Show = Annotated[bool, typer.Option("--show", help="Measure nothing, and print the figures that are kept.")]
Rounds = Annotated[int, typer.Option(help="Rounds of each competitor.")]
Seconds = Annotated[float, typer.Option(help="Seconds of a competitor in a round.")]
Threads = Annotated[str, typer.Option(help="Numbers of threads, with commas between.")]
Flags = Annotated[str, typer.Option(help="More flags of the compiler, as -march=haswell.")]


def is_chosen(name: str, only: str) -> bool:
    """Return whether a name has one of the texts of --only."""
    return any(text.strip() in name for text in only.split(","))


def numbers(threads: str) -> list[int]:
    """Return numbers of threads. Raises: BadParameter"""
    try:
        return [int(count) for count in threads.split(",")]
    except ValueError:
        raise typer.BadParameter("--threads must be whole numbers with commas between, as 1,2") from None
