"""Running sums along an axis: each direction is the reverse of the other."""

from __future__ import annotations

import numpy as np

from catgrad.ops.shape import normalised
from catgrad.terms.op import NOTHING, Examples, Op, Types, numeric
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType

__all__ = ["cumsum"]


class CumSum(Op):
    """Cumulative sum along an axis: yᵢ = Σⱼ xⱼ over j ≤ i, or over j ≥ i if it runs backwards.

    Sums of 16-bit numbers are formed in float32.

    Type:     (T) -> T for numeric T
    Raises:   OptionError if there is no such axis
    Gradient: dx is the cumulative sum of dy in the other direction
    """

    axis: int
    backwards: bool = False
    saves = NOTHING
    reduces = True
    result = "running"

    def type(self, x: NdArrayType) -> Types:
        normalised(self.axis, x.rank)
        return numeric(x)

    def ref(self, x: Array) -> Array:
        if self.backwards:
            return np.flip(np.cumsum(np.flip(x, self.axis), axis=self.axis, dtype=x.dtype), self.axis)
        return np.cumsum(x, axis=self.axis, dtype=x.dtype)

    def rev(self, dy: Var) -> Var:
        return CumSum(self.axis, not self.backwards)(dy)

    @classmethod
    def examples(cls) -> Examples:
        return [
            (CumSum(0), (NdArrayType((4,)),)),
            (CumSum(1, backwards=True), (NdArrayType((2, 3)),)),
            (CumSum(1), (NdArrayType((2, 3, 4)),)),
            (CumSum(0, backwards=True), (NdArrayType((0, 3)),)),
        ]


def cumsum(x: Var, axis: int = -1, backwards: bool = False) -> Var:
    """Σⱼ xⱼ over j ≤ i along an axis, by default the last; over j ≥ i if it runs backwards."""
    (place,) = normalised(axis, x.type.rank)
    return CumSum(place, backwards)(x)
