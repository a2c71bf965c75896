"""Comparisons, and the choices made by them."""

from __future__ import annotations

from typing import Any

import numpy as np

from catgrad.errors import DtypeError
from catgrad.op import INPUTS, NOTHING, Examples, Op, Saves, Types, floating, same
from catgrad.structural import zeros_like
from catgrad.types import Array, Dtype, NdArrayType


class Comparison(Op, register=False):
    """Where a relation holds between two arrays: (T, T) -> bool. It has gradient 0."""

    saves = NOTHING
    elementwise = True

    def type(self, x: NdArrayType, y: NdArrayType) -> Types:
        return NdArrayType(same(x, y).shape, Dtype.bool)


class Greater(Comparison, symbol=">"):
    """Where x > y: (T, T) -> bool."""

    def ref(self, x: Array, y: Array) -> Any:
        return x > y


class Less(Comparison, symbol="<"):
    """Where x < y: (T, T) -> bool."""

    def ref(self, x: Array, y: Array) -> Any:
        return x < y


class GreaterEqual(Comparison, symbol=">="):
    """Where x ≥ y: (T, T) -> bool."""

    def ref(self, x: Array, y: Array) -> Any:
        return x >= y


class LessEqual(Comparison, symbol="<="):
    """Where x ≤ y: (T, T) -> bool."""

    def ref(self, x: Array, y: Array) -> Any:
        return x <= y


class Equal(Comparison, symbol="=="):
    """Where x = y: (T, T) -> bool. NaN equals nothing."""

    commutative = True

    def ref(self, x: Array, y: Array) -> Any:
        return x == y


class Select(Op):
    """Choice: z = x where the condition holds, y elsewhere.

    Type:     (bool[S], T[S], T[S]) -> T[S]
    Gradient: dx = dz where the condition holds, else 0; dy the other way round
    """

    saves = Saves(inputs=(0,))
    elementwise = True

    def type(self, condition: NdArrayType, x: NdArrayType, y: NdArrayType) -> Types:
        if condition.dtype is not Dtype.bool:
            raise DtypeError(
                "the condition must be bool", f"it is {condition}", "compare it to something, as in x > 0"
            )
        same(condition, NdArrayType(x.shape, Dtype.bool))
        return same(x, y)

    def ref(self, condition: Array, x: Array, y: Array) -> Any:
        return np.where(condition, x, y)

    def rev(self, condition: Any, dz: Any) -> Any:
        zero = zeros_like(dz)
        return self(condition, dz, zero), self(condition, zero, dz)

    @classmethod
    def examples(cls) -> Examples:
        x = NdArrayType((2, 3))
        return [(cls(), (NdArrayType((2, 3), Dtype.bool), x, x))]


class Maximum(Op):
    """The greater of two: z = max(x, y), for floating T; NaN if either is.

    Type:     (T, T) -> T
    Gradient: dz to the greater one, half to each at ties, and to both beside a NaN (as torch.maximum)
    """

    saves = INPUTS
    elementwise = commutative = True

    def type(self, x: NdArrayType, y: NdArrayType) -> Types:
        return floating(x, y)

    def ref(self, x: Array, y: Array) -> Any:
        return np.maximum(x, y)

    def rev(self, x: Any, y: Any, dz: Any) -> Any:
        zero, shared = zeros_like(dz), select(x == y, dz / 2, dz)
        return select(x < y, zero, shared), select(x > y, zero, shared)


class Relu(Op):
    """Rectifier: y = max(x, 0), for floating T.

    Type:     (T) -> T, with y ≥ 0
    Gradient: dx = 0 where x ≤ 0, else dy (so 0 at 0, as torch.relu)
    """

    saves = INPUTS
    elementwise = True

    def type(self, x: NdArrayType) -> Types:
        return floating(x)

    def ref(self, x: Array) -> Any:
        return np.maximum(x, 0)

    def body(self, x: Any) -> Any:
        return maximum(x, zeros_like(x))

    def rev(self, x: Any, dy: Any) -> Any:
        return select(x <= 0, zeros_like(dy), dy)


greater, greater_equal, less, less_equal, equal = Greater(), GreaterEqual(), Less(), LessEqual(), Equal()
select, maximum, relu = Select(), Maximum(), Relu()
