"""Clamping to an interval, and remainders."""

from __future__ import annotations

from math import isfinite

import numpy as np

from catgrad.errors import OptionError
from catgrad.ops.arithmetic import absolute, floor, maximum, minimum, sign
from catgrad.ops.compare import select
from catgrad.ops.scalar import FloatMap
from catgrad.terms.op import INPUTS, Examples
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType

__all__ = ["clamp", "fmod"]


class Clamp(FloatMap):
    """The nearest number of an interval: y = min(max(x, low), high), for floating T; NaN stays.

    A bound of None is none.

    Type:     (T) -> T
    Raises:   OptionError unless there is a finite bound, or two with low ≤ high
    Gradient: dx = dy where low ≤ x ≤ high, else 0 (as torch.clamp)
    """

    low: float | None = None
    high: float | None = None
    saves = INPUTS
    rounds_once = True

    def __post_init__(self) -> None:
        given = [bound for bound in (self.low, self.high) if bound is not None]
        if not given or not all(map(isfinite, given)) or given != sorted(given):
            raise OptionError(
                "there must be one finite bound, or two with low ≤ high",
                f"they are {self.low} and {self.high}",
                "write None for no bound",
            )

    def ref(self, x: Array) -> Array:
        return np.clip(x, self.low, self.high)

    def body(self, x: Var) -> Var:
        if self.low is not None:
            x = maximum(x, Constant(x.type, self.low)())
        return x if self.high is None else minimum(x, Constant(x.type, self.high)())

    def rev(self, x: Var, dy: Var) -> Var:
        if self.low is not None:
            dy = select(x >= self.low, dy, zeros_like(dy))
        return dy if self.high is None else select(x <= self.high, dy, zeros_like(dy))

    @classmethod
    def examples(cls) -> Examples:
        ops = [Clamp(-1.0, 0.5), Clamp(low=0.0), Clamp(high=1.0)]
        return [(op, (NdArrayType(shape),)) for op in ops for shape in ((2, 3), ())]


class Fmod(FloatMap):
    """Remainder with the sign of the dividend: z = x - y · n, n = x / y rounded towards 0, for floating T.

    Type:     (T, T) -> T
    Domain:   y ≠ 0 and finite x; elsewhere NaN
    Gradient: dx = dz, dy = -dz · n
    """

    saves = INPUTS
    domain = (0.5, 2.0)
    costly = True
    ref = np.fmod

    def rev(self, x: Var, y: Var, dz: Var) -> tuple[Var, Var]:
        quotient = x / y
        return dz, -(dz * (sign(quotient) * floor(absolute(quotient))))


fmod = Fmod()


def clamp(x: Var, low: float | None = None, high: float | None = None) -> Var:
    """min(max(x, low), high); a bound of None is none."""
    return Clamp(low, high)(x)
