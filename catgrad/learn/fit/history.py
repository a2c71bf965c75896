"""The history of a training: the loss of every step, and a record of every epoch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from catgrad.errors import ArtifactError, OptionError
from catgrad.learn.fit.plot import COLOURS, draw_losses, figure, save


@dataclass(frozen=True)
class Epoch:
    """One pass over the data: its mean loss, weighted by the sizes of the batches, and its evaluation."""

    number: int
    """The number of the epoch, starting at 1."""
    steps: int
    """The number of steps up to the end of this epoch."""
    loss: float
    """The mean loss over its steps, each before the update."""
    validation: Mapping[str, float] = field(default_factory=dict)
    """The loss and the metrics on the validation data, after the epoch."""
    whole: bool = True
    """False if a number of steps ended the epoch before its last batch."""


@dataclass
class History:
    """The loss before each step, the epochs, and the first complete epoch with the least validation loss."""

    losses: list[float] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    best: Epoch | None = None

    def add(self, epoch: Epoch) -> bool:
        """Append an epoch; return whether it is the best so far."""
        self.epochs.append(epoch)
        if not epoch.whole or not epoch.validation:
            return False
        is_best = self.best is None or epoch.validation["loss"] < self.best.validation["loss"]
        if is_best:
            self.best = epoch
        return is_best

    def plot(self, path: str | Path) -> None:
        """Draw the loss over the steps, and the validation loss after each epoch, to a PNG, SVG or PDF.

        Raises: OptionError before the first step; ToolError without matplotlib; ArtifactError if the
                file cannot be written
        """
        if not self.losses:
            raise OptionError("a plot must have a loss", "there have been no steps", "train first")
        picture = figure(6, 4.2)
        axes = picture.subplots()
        draw_losses(axes, self.losses, "")
        validated = [epoch for epoch in self.epochs if epoch.validation]
        if validated:
            values = [epoch.validation["loss"] for epoch in validated]
            axes.plot(
                [epoch.steps for epoch in validated], values, ".-", color=COLOURS[2], label="validation"
            )
            axes.legend()
        save(picture, path)

    def to_json(self) -> str:
        """Return the history as text; floats keep all digits."""
        return json.dumps({"losses": self.losses, "epochs": [asdict(epoch) for epoch in self.epochs]})

    @classmethod
    def from_json(cls, text: str, path: object) -> History:
        """Parse the text in the file `path`. Raises: ArtifactError if it is not a history."""
        try:
            found = json.loads(text)
            history = cls(_finite(found["losses"]))
            for entry in found["epochs"]:
                history.add(_epoch(entry, history.epochs))
            if not history.epochs or history.epochs[-1].steps != len(history.losses):
                raise ValueError
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
            raise ArtifactError(
                f"the history in {path} must be one that fit wrote",
                f"it is {text[:40]!r}",
                "resume from another checkpoint",
            ) from None
        return history


def _epoch(entry: Mapping[str, Any], before: Sequence[Epoch]) -> Epoch:
    """Check an epoch against its predecessors. Raises: ValueError or TypeError if fit writes no such one."""
    epoch = Epoch(**entry)
    steps, is_whole = (before[-1].steps, before[-1].whole) if before else (0, True)
    if not (
        type(epoch.number) is type(epoch.steps) is int
        and epoch.number == len(before) + 1
        and epoch.steps > steps
        and type(epoch.whole) is bool
        and is_whole
        and type(epoch.validation) is dict
    ):
        raise ValueError
    _finite([epoch.loss, epoch.validation["loss"]] if epoch.validation else [epoch.loss])
    if not all(type(value) in (int, float) for value in epoch.validation.values()):
        raise ValueError
    return epoch


def _finite(numbers: object) -> list[float]:
    """Check a list of finite numbers, and return it. Raises: ValueError or OverflowError."""
    if type(numbers) is not list or not all(type(n) in (int, float) and isfinite(n) for n in numbers):
        raise ValueError
    return [float(n) for n in numbers]
