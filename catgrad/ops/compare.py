"""Comparisons, and selection by a condition."""

from __future__ import annotations

import numpy as np

from catgrad.errors import DtypeError
from catgrad.terms.op import NOTHING, Examples, Op, Saves, Types, floating, same
from catgrad.terms.structural import zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

__all__ = [
    "equal", "greater", "greater_equal", "is_finite", "is_nan", "less", "less_equal", "not_equal",
    "select",
]  # fmt: skip


class Comparison(Op, register=False):
    """A relation between two arrays, element by element: (T, T) -> bool. It has gradient 0."""

    saves = NOTHING
    elementwise = True

    def type(self, x: NdArrayType, y: NdArrayType) -> Types:
        return NdArrayType(same(x, y).shape, Dtype.bool)


class Greater(Comparison, symbol=">"):
    """Greater: x > y, (T, T) -> bool."""

    ref = np.greater


class Less(Comparison, symbol="<"):
    """Less: x < y, (T, T) -> bool."""

    ref = np.less


class GreaterEqual(Comparison, symbol=">="):
    """Greater or equal: x ≥ y, (T, T) -> bool."""

    ref = np.greater_equal


class LessEqual(Comparison, symbol="<="):
    """Less or equal: x ≤ y, (T, T) -> bool."""

    ref = np.less_equal


class Equal(Comparison, symbol="=="):
    """Equality: x = y, (T, T) -> bool. NaN equals nothing."""

    commutative = True
    ref = np.equal


class NotEqual(Comparison, symbol="!="):
    """Inequality: x ≠ y, (T, T) -> bool. NaN differs from everything."""

    commutative = True
    ref = np.not_equal


class FloatTest(Op, register=False):
    """A predicate of each element: (T) -> bool for floating T. It has gradient 0."""

    saves = NOTHING
    rounds_once = True
    elementwise = True

    def type(self, x: NdArrayType) -> Types:
        return NdArrayType(floating(x).shape, Dtype.bool)


class IsNan(FloatTest):
    """Test for NaN: (T) -> bool for floating T."""

    ref = np.isnan

    def body(self, x: Var) -> Var:
        return x != x


class IsFinite(FloatTest):
    """Test for finite numbers, neither NaN nor infinite: (T) -> bool for floating T."""

    ref = np.isfinite

    def body(self, x: Var) -> Var:
        return x - x == 0


class Select(Op):
    """Selection: z = x where the condition holds, y elsewhere.

    Type:     (bool[S], T[S], T[S]) -> T[S]
    Gradient: dx = dz where the condition holds, else 0; dy the other way round
    """

    saves = Saves(inputs=(0,))
    rounds_once = True
    elementwise = True

    def type(self, condition: NdArrayType, x: NdArrayType, y: NdArrayType) -> Types:
        if condition.dtype is not Dtype.bool:
            raise DtypeError(
                "the condition must be bool", f"it is {condition}", "compare it to something, as in x > 0"
            )
        same(condition, NdArrayType(x.shape, Dtype.bool))
        return same(x, y)

    def ref(self, condition: Array, x: Array, y: Array) -> Array:
        return np.where(condition, x, y)

    def rev(self, condition: Var, dz: Var) -> tuple[Var, Var]:
        zero = zeros_like(dz)
        return self(condition, dz, zero), self(condition, zero, dz)

    @classmethod
    def examples(cls) -> Examples:
        x = NdArrayType((2, 3))
        return [(cls(), (NdArrayType((2, 3), Dtype.bool), x, x))]


greater, greater_equal, less, less_equal, equal = Greater(), GreaterEqual(), Less(), LessEqual(), Equal()
not_equal, is_nan, is_finite = NotEqual(), IsNan(), IsFinite()
select = Select()
