"""Softmax, its logarithm, and the logarithm of a sum of exponentials."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from catgrad.dims import Size
from catgrad.ops.arithmetic import absolute
from catgrad.ops.compare import select
from catgrad.ops.extrema import Max, max
from catgrad.ops.logic import any
from catgrad.ops.reduce import broadcast, sum
from catgrad.ops.shape import Shape, normalised
from catgrad.ops.transcendental import exp, log
from catgrad.terms.op import OUTPUTS, Examples, Op, Saves, Types, floating
from catgrad.terms.structural import part, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType

__all__ = ["log_softmax", "logsumexp", "softmax"]


class AlongAxis(Op, register=False):
    """T -> T for floating T, along one axis."""

    axis: int
    saves = OUTPUTS

    def type(self, x: NdArrayType) -> Types:
        normalised(self.axis, x.rank)
        return floating(x)

    @classmethod
    def examples(cls) -> Examples:
        return [
            (cls(axis), (NdArrayType(shape),)) for axis, shape in ((1, (2, 3)), (0, (2, 3)), (1, (2, 3, 4)))
        ]

    def minimum_sizes(self, x: NdArrayType) -> tuple[tuple[Size, int], ...]:
        return ((x.shape[self.axis], 1),)

    def copies(self, x: Var, like: Var) -> Var:
        """Broadcast x along the axis that was removed."""
        return broadcast(x, like.shape, (self.axis,))

    def shifted(self, x: Var) -> Var:
        """Subtract the maximum along the axis, so that no exponential overflows."""
        return x - self.copies(part("greatest", max(x, self.axis)), x)


class Softmax(AlongAxis):
    """Softmax: yᵢ = e^xᵢ / Σⱼ e^xⱼ along an axis, for floating T.

    Type:     (T) -> T, with y ≥ 0 and Σ y = 1
    Raises:   ShapeError if the axis is empty
    Gradient: dx = y · (dy - Σⱼ yⱼ dyⱼ)
    """

    def ref(self, x: Array) -> Any:
        e = np.exp(x - x.max(axis=self.axis, keepdims=True))
        return e / e.sum(axis=self.axis, keepdims=True)

    def body(self, x: Var) -> Var:
        e = part("exponentials", exp(self.shifted(x)))
        return e / self.copies(sum(e, self.axis), x)

    def rev(self, y: Var, dy: Var) -> Var:
        return y * (dy - self.copies(part("sum_y_dy", sum(y * dy, self.axis)), y))


class LogSoftmax(AlongAxis):
    """Logarithm of softmax: yᵢ = xᵢ - ln Σⱼ e^xⱼ along an axis, for floating T.

    Type:     (T) -> T, with y ≤ 0
    Raises:   ShapeError if the axis is empty
    Gradient: dx = dy - e^y · Σⱼ dyⱼ
    """

    def ref(self, x: Array) -> Any:
        shifted = x - x.max(axis=self.axis, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis=self.axis, keepdims=True))

    def body(self, x: Var) -> Var:
        shifted = self.shifted(x)
        return shifted - self.copies(part("log_sum", log(sum(exp(shifted), self.axis))), x)

    def rev(self, y: Var, dy: Var) -> Var:
        return dy - exp(y) * self.copies(part("sum_dy", sum(dy, self.axis)), y)


class LogSumExp(Op):
    """Logarithm of a sum of exponentials along an axis, which is removed: y = ln Σᵢ e^xᵢ, for floating T.

    Type:     T[shape] -> T[shape without axis]
    Raises:   ShapeError if the axis is empty
    Gradient: dx = dy · e^(x - y)
    """

    shape: Shape
    axis: int
    saves = Saves(inputs=..., outputs=...)

    def type(self, x: NdArrayType) -> Types:
        return Max(self.shape, self.axis).type(floating(x))

    def minimum_sizes(self, x: NdArrayType) -> tuple[tuple[Size, int], ...]:
        return ((self.shape[self.axis], 1),)

    def ref(self, x: Array) -> Any:
        return np.logaddexp.reduce(x, axis=self.axis)

    def body(self, x: Var) -> Var:
        greatest = part("greatest", max(x, self.axis))
        # An infinity minus itself would be NaN.
        shift = select(absolute(greatest) < inf, greatest, zeros_like(greatest))
        return log(sum(exp(x - self._copies(shift)), self.axis)) + shift

    def rev(self, x: Var, y: Var, dy: Var) -> Var:
        return self._copies(dy) * exp(x - self._copies(y))

    def _copies(self, x: Var) -> Var:
        return broadcast(x, self.shape, (self.axis,))

    @classmethod
    def examples(cls) -> Examples:
        floats = (case for case in Max.examples() if case[1][0].dtype.is_floating)
        return [(cls(op.shape, op.axis), types) for op, types in floats if isinstance(op, Max)]


def softmax(x: Var, axis: int = -1) -> Var:
    """yᵢ = e^xᵢ / Σⱼ e^xⱼ along an axis, by default the last."""
    return Softmax(*normalised(axis, x.type.rank))(x)


def softmax_of_seen(scores: Var, seen: Var, axis: int) -> Var:
    """Softmax along an axis, and 0 with gradient 0 where none of the elements is seen, not NaN."""
    zero = zeros_like(scores)
    sees = broadcast(any(seen, axis), scores.shape, [axis])
    return select(sees, softmax(select(sees, scores, zero), axis), zero)


def log_softmax(x: Var, axis: int = -1) -> Var:
    """yᵢ = xᵢ - ln Σⱼ e^xⱼ along an axis, by default the last."""
    return LogSoftmax(*normalised(axis, x.type.rank))(x)


def logsumexp(x: Var, axis: int = -1) -> Var:
    """ln Σᵢ e^xᵢ along an axis, by default the last, which is removed."""
    return LogSumExp(x.shape, *normalised(axis, x.type.rank))(x)
