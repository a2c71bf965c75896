"""From one dtype to another."""

from __future__ import annotations

from typing import Any

import numpy as np

from catgrad.errors import DtypeError
from catgrad.op import NOTHING, Examples, Op, Types
from catgrad.structural import Constant
from catgrad.types import Array, Dtype, NdArrayType


class Cast(Op):
    """The same numbers in another dtype: y = x, rounded to the nearest that it holds.

    From floating-point to whole numbers the fraction is dropped; truth values become 0 and 1, and
    a number is true where it is not 0.

    Type:     A[S] -> B[S], for the dtypes A and B
    Domain:   whole B: x within its range; elsewhere the number is not specified
    Gradient: dx = dy cast back; 0 unless both are floating-point
    """

    before: Dtype
    after: Dtype
    saves = NOTHING
    elementwise = True

    def type(self, x: NdArrayType) -> Types:
        if x.dtype is not self.before:
            raise DtypeError(f"the array must be {self.before.name}", f"it is {x}", "name its dtype")
        return NdArrayType(x.shape, self.after)

    def ref(self, x: Array) -> Any:
        return np.asarray(x).astype(self.after.numpy)

    def rev(self, dy: Any) -> Any:
        if self.before is Dtype.bool:
            return ()
        if self.before.is_floating and self.after.is_floating:
            return Cast(self.after, self.before)(dy)
        return Constant(NdArrayType(dy.shape, self.before), 0)()

    def is_identity(self, *inputs: NdArrayType) -> bool:
        return self.before is self.after

    @classmethod
    def examples(cls) -> Examples:
        pairs = [
            (Dtype.float32, Dtype.float64), (Dtype.float64, Dtype.float32), (Dtype.float32, Dtype.int64),
            (Dtype.int32, Dtype.float32), (Dtype.bool, Dtype.float32), (Dtype.int64, Dtype.int32),
        ]  # fmt: skip
        return [(Cast(a, b), (NdArrayType((2, 3), a),)) for a, b in pairs]


def cast(x: Any, dtype: Dtype) -> Any:
    """X in another dtype."""
    return Cast(x.dtype, dtype)(x) if x.dtype is not dtype else x
