"""Values of a quantised term: known numbers, int8 arrays, functions of one, integer sums, floats."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from catgrad.ops.quantised import LEAST, MOST
from catgrad.quantisation.affine import Affine
from catgrad.terms.var import Var
from catgrad.types import Array


@dataclass(frozen=True, eq=False)
class Known:
    """Numbers, with size 1 along axes where all are equal, and the parameter that they are from.

    `grid` has the scales of what was rounded to multiples of them.
    """

    array: Array
    name: str = ""
    grid: Array | None = None

    @property
    def is_uniform(self) -> bool:
        """Tell whether it is one number, everywhere."""
        return self.array.size == 1


@dataclass(frozen=True, eq=False)
class Trained:
    """A parameter that trains: its variable, and its numbers before, with size 1 as those of `Known`.

    If it has scales, of the same shape, the variable has levels.
    """

    var: Var
    array: Array
    name: str
    scales: Array | None = None


@dataclass(frozen=True, eq=False)
class Eight:
    """An int8 array that stands for s · (q - z), or for s · q / d where there is a divisor d."""

    q: Var
    affine: Affine
    divisor: Array | None = None

    @property
    def scales(self) -> Any:
        """The scale, or those along the axes of the divisor."""
        return self.affine.scale / (1.0 if self.divisor is None else self.divisor)


@dataclass(frozen=True, eq=False)
class Map:
    """A function of each element of an int8 array, by its values at the 256 levels."""

    source: Eight
    values: Array


@dataclass(frozen=True, eq=False)
class Summand:
    """The numbers factor · (total - centre), for an int32 array between -bound and bound.

    All but the total broadcast to its shape.
    """

    total: Var
    factor: Array
    centre: Array
    bound: Array


@dataclass(frozen=True, eq=False)
class Sums:
    """The numbers clamp(Σ summands + offset, low, high), which are rounded to int8 when they are read.

    Affine functions of each channel, such as batch norm in evaluation, change factors and offset only.
    `layer` is the dotted name of the layer whose weights are summed. Where a `mask` is false, the number
    is 0.
    """

    summands: tuple[Summand, ...]
    offset: Array
    low: float = -inf
    high: float = inf
    layer: str = ""
    mask: Var | None = None

    @property
    def is_finite(self) -> bool:
        """Tell whether there is a bound of its totals."""
        return all(np.all(np.isfinite(summand.bound)) for summand in self.summands)

    @property
    def is_clamped(self) -> bool:
        """Tell whether it has a bound."""
        return self.low > -inf or self.high < inf

    @property
    def is_bounded(self) -> bool:
        """Tell whether an affine function of it is none of the sum."""
        return self.is_clamped or self.mask is not None

    def scaled(self, factor: Array | float) -> Sums:
        """Multiply by numbers of each channel."""
        summands = (replace(s, factor=s.factor * factor) for s in self.summands)
        return replace(self, summands=tuple(summands), offset=self.offset * factor)

    def shifted(self, offset: Array) -> Sums:
        """Add numbers of each channel."""
        return replace(self, offset=self.offset + offset)

    def clamped(self, low: float, high: float) -> Sums:
        """Clamp to another interval."""
        low = min(max(self.low, low), high)
        return replace(self, low=low, high=max(min(self.high, high), low))


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of -127 … 127, or on a learned grid of -128 … 127, with their scales, and levels if known."""

    q: Var
    scales: Array
    levels: Array | None = None


@dataclass(frozen=True, eq=False)
class Plain:
    """An array that is no int8; `trains` if it depends on a parameter that is trained."""

    var: Var
    trains: bool = False


Value = Known | Trained | Eight | Map | Sums | Plain


def levels() -> Array:
    """Return all numbers of int8."""
    return np.arange(LEAST, MOST + 1, dtype=np.int8)
