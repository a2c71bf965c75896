"""How a parameter gets its first value: a distribution each target draws from, or a constant."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, sqrt

import numpy as np

from catgrad.dims import Size
from catgrad.errors import OptionError


def _require(holds: bool, what: str, initialiser: object) -> None:
    if not holds:
        raise OptionError(f"an initialiser must have {what}", f"it is {initialiser}", "change its numbers")


@dataclass(frozen=True)
class Uniform:
    """Independent draws from the uniform distribution on [low, high)."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _require(self.low <= self.high and isfinite(self.low + self.high), "low ≤ high, both finite", self)


@dataclass(frozen=True)
class Normal:
    """Independent draws from the normal distribution with the given mean and standard deviation."""

    mean: float = 0.0
    deviation: float = 1.0

    def __post_init__(self) -> None:
        _require(0 <= self.deviation < inf and isfinite(self.mean), "a finite mean and deviation ≥ 0", self)


@dataclass(frozen=True)
class Filled:
    """The same value everywhere."""

    value: float = 0.0

    def __post_init__(self) -> None:
        _require(isfinite(self.value), "a finite value", self)


ZEROS = Filled(0.0)
Initialiser = Uniform | Normal | Filled


def fan_in_uniform(fan_in: Size) -> Uniform:
    """U(-1/√n, 1/√n) for n incoming connections: the default of `torch.nn.Linear`.

    Raises: OptionError if `fan_in` is symbolic.
    Source: LeCun et al. 1998, Efficient BackProp, section 4.6; He et al. 2015 with a = √5.
    """
    if not isinstance(fan_in, int):
        raise OptionError(
            "a layer's number of inputs must be a number",
            f"it is {fan_in}",
            "keep symbolic dimensions for the batch",
        )
    bound = float(str(np.float32(1 / sqrt(fan_in)))) if fan_in else 0.0  # few digits in emitted code
    return Uniform(-bound, bound)
