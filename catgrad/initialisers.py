"""Initialisers of parameters: distributions that targets draw from, and constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import inf, isfinite, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catgrad.dims import Size
from catgrad.errors import OptionError, require_one_of


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
    """A constant."""

    value: float = 0.0

    def __post_init__(self) -> None:
        _require(isfinite(self.value), "a finite value", self)


class Stored:
    """A given array, such as a trained weight; equal to one of the same bytes.

    A learner begins with it. `drawn` is the distribution that `init` draws from in its place, or a function
    that computes it from the array when it is needed.
    """

    def __init__(
        self, array: NDArray[Any], drawn: Drawn | Callable[[NDArray[Any]], Drawn] | None = None
    ) -> None:
        self.array, self._drawn = array, drawn

    @cached_property
    def drawn(self) -> Drawn | None:
        """The distribution that `init` draws from, if it draws."""
        return self._drawn(self.array) if callable(self._drawn) else self._drawn

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of its little-endian elements, in hexadecimal."""
        little = self.array.astype(self.array.dtype.newbyteorder("<"), copy=False)
        return sha256(_bytes(little).data).hexdigest()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Stored) or self._kind() != other._kind() or self.drawn != other.drawn:
            return False
        return self.array is other.array or np.array_equal(_bytes(self.array), _bytes(other.array))

    def __hash__(self) -> int:
        return hash(self._kind())

    def __repr__(self) -> str:
        return f"Stored({self.array.dtype}{list(self.array.shape)})"

    def _kind(self) -> tuple[object, ...]:
        return self.array.dtype, self.array.shape


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of an array, without a copy if it is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


ZEROS = Filled(0.0)
Drawn = Uniform | Normal | Filled
Initialiser = Drawn | Stored
Initial = Initialiser | Callable[[Size, Size], Initialiser]
"""An argument of layers: an initialiser, or a function from fan-in and fan-out to one."""


def chosen(initial: Initial, fan_in: Size, fan_out: Size) -> Initialiser:
    """Return the initialiser of a parameter, given the fan-in and fan-out of its layer."""
    return initial(fan_in, fan_out) if callable(initial) else initial


def fan_in_uniform(fan_in: Size, fan_out: Size = 1) -> Uniform:
    """U(-1/√n, 1/√n) for n incoming connections: the default of `torch.nn.Linear`.

    Raises: OptionError if `fan_in` is symbolic.
    Source: LeCun et al. 1998, Efficient BackProp, section 4.6; He et al. 2015 with a = √5.
    """
    return _uniform(_per_root(1.0, fan_in))


def kaiming_uniform(fan_in: Size, fan_out: Size, gain: float = sqrt(2)) -> Uniform:
    """U(-b, b) with b = gain · √(3 / fan_in): variance gain² / fan_in.

    Raises: OptionError if `fan_in` is symbolic.
    Source: He et al. 2015 (arXiv:1502.01852), equation 10
    """
    return _uniform(_per_root(gain * sqrt(3), fan_in))


def kaiming_normal(fan_in: Size, fan_out: Size, gain: float = sqrt(2)) -> Normal:
    """N(0, σ²) with σ = gain / √fan_in.

    Raises: OptionError if `fan_in` is symbolic.
    Source: He et al. 2015 (arXiv:1502.01852), equation 10
    """
    return Normal(0.0, _short(_per_root(gain, fan_in)))


def xavier_uniform(fan_in: Size, fan_out: Size, gain: float = 1.0) -> Uniform:
    """U(-b, b) with b = gain · √(6 / (fan_in + fan_out)): variance 2 gain² / (fan_in + fan_out).

    Raises: OptionError if a fan is symbolic.
    Source: Glorot and Bengio 2010, Understanding the difficulty of training deep networks, equation 16
    """
    return _uniform(_per_root(gain * sqrt(6), fan_in + fan_out))


def xavier_normal(fan_in: Size, fan_out: Size, gain: float = 1.0) -> Normal:
    """N(0, σ²) with σ = gain · √(2 / (fan_in + fan_out)).

    Raises: OptionError if a fan is symbolic.
    Source: Glorot and Bengio 2010, Understanding the difficulty of training deep networks, equation 12
    """
    return Normal(0.0, _short(_per_root(gain * sqrt(2), fan_in + fan_out)))


def gain(nonlinearity: str, slope: float = 0.01) -> float:
    """Return the gain of weights before a nonlinearity: √(1 / E f(z)²), or an approximation.

    `slope` is that of leaky_relu where x < 0. The numbers are those of torch.nn.init.calculate_gain.

    Raises: OptionError for one that is not listed.
    """
    gains = {
        "linear": 1.0,
        "sigmoid": 1.0,
        "tanh": 5 / 3,
        "relu": sqrt(2),
        "leaky_relu": sqrt(2 / (1 + slope * slope)),
        "selu": 3 / 4,
    }
    require_one_of("the nonlinearity", nonlinearity, gains, "pass the gain as a number")
    return gains[nonlinearity]


def _per_root(numerator: float, fan: Size) -> float:
    if not isinstance(fan, int):
        raise OptionError(
            "the numbers of inputs and outputs of a layer must be known",
            f"one is {fan}",
            "keep symbolic dimensions for the batch",
        )
    return numerator / sqrt(fan) if fan else 0.0


def _uniform(bound: float) -> Uniform:
    return Uniform(-_short(bound), _short(bound))


def _short(number: float) -> float:
    """Round to float32, which has few digits in emitted code."""
    return float(str(np.float32(number)))
