"""Fuzzing: random programs on every target, with new seeds, for some time: `make fuzz SECONDS=600`."""

from __future__ import annotations

import time
import warnings
from random import randrange
from typing import Annotated

import typer
from hypothesis import Phase, seed

import tests.conftest  # noqa: F401  # has emitted CUDA run in the simulator where there is no GPU
from tests.laws.test_random_programs import TARGETS, random_programs
from tests.targets import cannot

PHASES = (Phase.generate, Phase.shrink)


def main(
    seconds: Annotated[float, typer.Option(help="How long to draw new programs.")] = 60,
    target: Annotated[list[str] | None, typer.Option(help="A target; may be given several times.")] = None,
    first: Annotated[int | None, typer.Option(help="The seed that a failure printed.")] = None,
) -> None:
    """Compare random programs on targets with the reference; print seeds, and shrink one that differs."""
    targets = [name for name in target or TARGETS if not cannot(name)]
    number, end = randrange(2**32) if first is None else first, time.monotonic() + seconds
    rounds = 0
    while rounds == 0 or time.monotonic() < end:
        for name in targets:
            typer.echo(f"{name}: seed {number}")
            check = random_programs(
                name,
                max_examples=20,
                phases=PHASES,
                database=None,
                derandomize=False,
                report_multiple_bugs=False,
            )
            try:
                seed(number)(check)()
            except Exception as error:
                typer.echo(
                    f"{error}\nagain: python -m tests.fuzz --target {name} --first {number} --seconds 0"
                )
                raise typer.Exit(1) from None
        number, rounds = number + 1, rounds + 1


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    typer.run(main)
