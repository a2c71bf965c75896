"""Reduction of the learning rate when the validation loss has stopped falling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from catgrad.errors import OptionError
from catgrad.learn.fit.checkpoint import restore
from catgrad.learn.learner import Learner
from catgrad.learn.options import check_integer, number, positive
from catgrad.terms.state import LEARNING_RATE


@dataclass(frozen=True)
class Plateau:
    """Multiply an adjustable learning rate by `factor` after more than `patience` epochs without progress.

    Progress is a loss below the least so far by the share `threshold` of it, or by `threshold` itself
    unless it is `relative`. `cooldown` epochs after a reduction do not count. `rate` names the rate, which
    stays at least `least`. As torch.optim.lr_scheduler.ReduceLROnPlateau with mode="min".

    Raises: OptionError for values outside their range
    """

    factor: float = 0.1
    patience: int = 10
    threshold: float = 1e-4
    relative: bool = True
    cooldown: int = 0
    least: float = 0.0
    rate: str = LEARNING_RATE

    def __post_init__(self) -> None:
        if positive("the factor of a plateau", self.factor) >= 1:
            raise OptionError("the factor of a plateau must be below 1", f"it is {self.factor}", "try 0.1")
        check_integer("the patience of a plateau", self.patience, 0)
        check_integer("the cooldown of a plateau", self.cooldown, 0)
        number("the threshold of a plateau", self.threshold)
        number("the least rate of a plateau", self.least)

    def is_reached(self, losses: Sequence[float]) -> bool:
        """Tell whether the rate is to be reduced after the last of these losses, one for each epoch."""
        best, stagnant, cooling, is_reached = inf, 0, 0, False
        for loss in losses:
            bound = best * (1 - self.threshold) if self.relative else best - self.threshold
            best, stagnant = (loss, 0) if loss < bound else (best, stagnant + 1)
            if cooling:
                cooling, stagnant = cooling - 1, 0
            is_reached = stagnant > self.patience
            if is_reached:
                cooling, stagnant = self.cooldown, 0
        return is_reached

    def reduce(self, learner: Learner) -> None:
        """Reduce the learning rate in the state of a learner."""
        old = float(learner.state[self.rate])
        new = max(old * self.factor, self.least)
        if old - new > MIN_REDUCTION:
            restore(learner, {"state": {**learner.state, self.rate: np.float64(new)}})

    def check(self, learner: Learner) -> None:
        """Raise OptionError unless the learner has an adjustable rate of this name."""
        if self.rate not in learner.state:
            raise OptionError(
                "a plateau must have an adjustable learning rate",
                f"the state has no {self.rate!r}",
                "write for example sgd(adjustable(0.1))",
            )


MIN_REDUCTION = 1e-8
"""The difference of rates up to which a reduction is not made, as in PyTorch."""
