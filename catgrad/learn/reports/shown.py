"""Learners shown: their arrays as a short table, and the plot of their training."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path

from catgrad.errors import OptionError
from catgrad.learn.fit.history import History
from catgrad.programs.ports import TABLES
from catgrad.tables import Table, Tabular


class Shown(Tabular):
    """The table and the plot of a learner; `history` is that of its last training by `fit`."""

    history: History | None = None

    @property
    def table(self) -> Table:
        """The arrays, elements and bytes of each table of a task."""
        rows = [
            (str(role), *_counts(getattr(self, role))) for role in reversed(TABLES) if getattr(self, role)
        ]
        return Table(("learner", "arrays", "elements", "bytes"), rows)

    def plot(self, path: str | Path) -> None:
        """Draw the losses of the last training by `fit` to a PNG, SVG or PDF.

        Raises: OptionError before a training; ToolError without matplotlib; ArtifactError if the file cannot
                be written
        """
        if self.history is None:
            raise OptionError(
                "a learner must be trained by fit before its plot", "it is not", "call fit first"
            )
        self.history.plot(path)


def _counts(table: Mapping[str, object]) -> tuple[int, int, int]:
    """Count arrays, elements and bytes; tables that know their types do not read the arrays for it."""
    arrays = [*getattr(table, "types", table).values()]
    sizes = [(prod(array.shape), int(array.dtype.itemsize)) for array in arrays]
    return len(arrays), sum(count for count, _ in sizes), sum(count * each for count, each in sizes)
