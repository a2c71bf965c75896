"""Integer division, rounded towards minus infinity."""

from __future__ import annotations

import numpy as np

from catgrad.errors import DtypeError
from catgrad.ops.scalar import Flat, ScalarMap
from catgrad.terms.op import Examples, Saves, Types, numeric
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

__all__ = ["floor_divide", "remainder"]


class IntegerMap(ScalarMap, register=False):
    """(T, T) -> T for integer T, element by element."""

    remedy = "cast them, or write floor(x / y) for x // y"

    def type(self, *types: NdArrayType) -> Types:
        first = numeric(*types)
        if first.dtype.is_floating:
            raise DtypeError("operands must be integers", f"they are {first}", self.remedy)
        return first

    @classmethod
    def examples(cls) -> Examples:
        chosen = [((2, 3), Dtype.int32), ((), Dtype.int64), ((0, 2), Dtype.int64)]
        return [(cls(), (NdArrayType(shape, dtype),) * cls.arity()) for shape, dtype in chosen]


class FloorDivide(Flat, IntegerMap, symbol="//"):
    """Whole quotient, rounded towards minus infinity: z = ⌊x / y⌋, for integer T.

    Type:     (T, T) -> T
    Domain:   0 where y = 0 (as NumPy); the least number over -1 is itself, for its negative does not fit
    Gradient: 0
    """

    result = "quotient"
    right_unit = 1
    costly = True
    ref = np.floor_divide


class Remainder(IntegerMap, symbol="%"):
    """Remainder with the sign of the divisor: z = x - y · ⌊x / y⌋, for integer T.

    Type:     (T, T) -> T
    Domain:   0 where y = 0 (as NumPy)
    Gradient: dx = dz, dy = -dz · ⌊x / y⌋
    """

    saves = Saves(inputs=...)
    costly = True
    ref = np.remainder

    def rev(self, x: Var, y: Var, dz: Var) -> tuple[Var, Var]:
        return dz, -(dz * floor_divide(x, y))


floor_divide, remainder = FloorDivide(), Remainder()
