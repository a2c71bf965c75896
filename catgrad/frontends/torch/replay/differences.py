"""Differences between two trainings, by step: as values, as a table, and as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from catgrad.errors import VerificationError
from catgrad.learn.fit import plot
from catgrad.verification import Comparison, Verification

SMALLEST_DRAWN = 1e-17
"""Differences of 0 are drawn here, as their logarithm is not finite."""


@dataclass(frozen=True)
class StepComparison(Comparison):
    """The comparison of one array after a step; `step` is 0 before the first.

    `function` says what it is: loss, grads, parameters, buffers, or predict.
    """

    step: int = 0


@dataclass(frozen=True)
class Replay(Verification):
    """The comparisons of a training in PyTorch and in an emitted program. Printed, it is a table."""

    comparisons: tuple[StepComparison, ...]
    HEADER: ClassVar = ("compared", "arrays", "worst", "step", "largest difference", "allowed", "agrees")

    @property
    def steps(self) -> int:
        """The number of steps."""
        return max((each.step for each in self.comparisons), default=0)

    def largest(self, function: str, result: str | None = None) -> list[float]:
        """Return the largest difference of these arrays, or of one, at each step; NaN without one."""
        chosen = [c for c in self.comparisons if c.function == function and result in (None, c.result)]
        found = [[c.difference for c in chosen if c.step == step] for step in range(self.steps + 1)]
        return [max(each, default=np.nan) for each in found]

    @property
    def rows(self) -> list[Sequence[str]]:
        """The rows of the table: for each kind of array, the comparison closest to or above its tolerance."""
        return [
            (
                each.function,
                str(self._count(each.function)),
                each.result,
                str(getattr(each, "step", 0)),
                f"{each.difference:.1e}",
                f"{each.tolerance:.1g}",
                "yes" if each.agrees else "no",
            )
            for each, _ in self.worst
        ]

    def _count(self, function: str) -> int:
        return len({each.result for each in self.comparisons if each.function == function})

    def __str__(self) -> str:
        cells = [self.HEADER, *self.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)

    def check(self) -> None:
        """Raise VerificationError unless all arrays agree after every step, with the first that does not."""
        wrong = [each for each in self.comparisons if not each.agrees]
        if not wrong:
            return
        step = min(each.step for each in wrong)
        first = max((each for each in wrong if each.step == step), key=lambda each: each.difference)
        when = f"after step {step}" if step else "before the first step"
        found = first.problem or f"{first.result} is {first.difference:.2g} off"
        equal = "begin with equal weights, by module.load_state_dict(learner.state_dict())"
        raise VerificationError(
            f"a training of the program emitted for {self.target} must agree with PyTorch's",
            f"{len(wrong)} of {len(self.comparisons)} arrays do not: {when}, in {first.function}, {found}",
            "report it with the module" if step else equal,
        )

    def plot(self, path: str | Path) -> None:
        """Draw the largest difference of each kind of array over the steps, on a logarithmic axis.

        Raises: ToolError without matplotlib; ArtifactError if the file cannot be written
        """
        figure = plot.figure(6, 4)
        axes = figure.subplots()
        for function in dict.fromkeys(each.function for each in self.comparisons):
            largest = np.maximum(self.largest(function), SMALLEST_DRAWN)
            present = np.isfinite(largest)
            axes.plot(np.flatnonzero(present), largest[present], marker=".", label=function)
        axes.set(xlabel="step", ylabel="largest |y - r| / (1 + |r|)", yscale="log", title=self.target)
        axes.legend()
        plot.save(figure, path)
