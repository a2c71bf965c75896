"""Casts between dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from catgrad.errors import DtypeError
from catgrad.terms.op import NOTHING, Examples, Op, Types
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

__all__ = ["cast"]


class Cast(Op):
    """The same numbers in another dtype: y = x, rounded to nearest.

    Floating-point numbers are truncated to integers, saturate at the range of B, and NaN becomes 0
    (as in XLA, Rust and WebAssembly). Integers out of the range of B wrap. Booleans become 0 and 1;
    a number is true where it is not 0, so NaN is.

    Type:     A[S] -> B[S], for the dtypes A and B
    Gradient: dx = dy cast back; 0 unless both are floating-point
    """

    before: Dtype
    after: Dtype
    saves = NOTHING
    elementwise = True

    @property
    def macro(self) -> str:
        """The name of the macro that prints it; casts to integers need one that saturates."""
        whole = self.before.is_floating and self.after.is_integer
        return "CastToInteger" if whole else "Cast"

    def type(self, x: NdArrayType) -> Types:
        if x.dtype is not self.before:
            raise DtypeError(
                f"the array must be {self.before.name}", f"it is {x}", "pass the dtype of the array"
            )
        return NdArrayType(x.shape, self.after)

    def ref(self, x: Array) -> Array:
        x = np.asarray(x)
        whole = self.after.numpy.kind in "iu"
        return saturated(x, self.after.numpy) if whole and x.dtype.kind == "f" else x.astype(self.after.numpy)

    def rev(self, dy: Var) -> Var | tuple[()]:
        if not self.before.is_numeric:
            return ()
        if self.before.is_floating and self.after.is_floating:
            return Cast(self.after, self.before)(dy)
        return Constant(NdArrayType(dy.shape, self.before), 0)()

    def result_name(self, *operands: str) -> str:
        (x,) = operands
        return f"{x}_{self.after.name}" if x else super().result_name(x)

    def fuse(self, inner: Op) -> Op | None:
        if not isinstance(inner, Cast) or not (
            inner.widens or (inner.floats_exactly and self._holds(inner.before))
        ):
            return None
        return Cast(inner.before, self.after)

    def _holds(self, dtype: Dtype) -> bool:
        """Tell whether the result, if it is an integer, has all numbers of another dtype: none saturates."""
        if not self.after.is_integer:
            return True
        return bool(self.after.limits.min <= dtype.limits.min and dtype.limits.max <= self.after.limits.max)

    @property
    def widens(self) -> bool:
        """Return whether the result is exact: its dtype, of the same kind, has all numbers of the other."""
        floating = self.before.is_floating and self.after.is_floating
        whole = self.before.is_integer and self.after.is_integer
        if whole and self.before.limits.min < self.after.limits.min:
            return False
        return (floating or whole) and self.before.itemsize < self.after.itemsize

    @property
    def floats_exactly(self) -> bool:
        """Return whether it makes floating-point numbers of integers, none of which is rounded."""
        if not (self.before.is_integer and self.after.is_floating):
            return False
        return bool(self.before.limits.max <= 2 ** (int(self.after.limits.nmant) + 1))

    @property
    def widens_bytes(self) -> bool:
        """Return whether it makes integers of 32 bits of those of 8 bits, as factors of sums of products."""
        return self.before in (Dtype.int8, Dtype.uint8) and self.after is Dtype.int32

    def is_identity(self, *inputs: NdArrayType) -> bool:
        return self.before is self.after

    @classmethod
    def examples(cls) -> Examples:
        pairs = [
            (Dtype.float32, Dtype.float64),
            (Dtype.float64, Dtype.float32),
            (Dtype.float32, Dtype.int64),
            (Dtype.int32, Dtype.float32),
            (Dtype.bool, Dtype.float32),
            (Dtype.int64, Dtype.int32),
            (Dtype.float32, Dtype.uint32),
            (Dtype.float64, Dtype.int32),
            (Dtype.float32, Dtype.bool),
        ]
        for stored in (dtype for dtype in Dtype if dtype.is_integer and not dtype.is_numeric):
            pairs += [(stored, Dtype.float32), (Dtype.float32, stored), (Dtype.int32, stored)]
            pairs += [(stored, Dtype.bool), (Dtype.bool, stored), (stored, Dtype.int64)]
        return [(Cast(a, b), (NdArrayType((2, 3), a),)) for a, b in pairs]


def saturated(x: Array, dtype: np.dtype[Any]) -> Array:
    """Round floating-point numbers towards 0 and into the range of an integer dtype; NaN becomes 0."""
    limits = np.iinfo(dtype)
    # Powers of 2, which each floating-point dtype represents exactly or as infinity.
    low, high = float(limits.min), float(limits.max) + (limits.bits < 64)
    with np.errstate(invalid="ignore", over="ignore"):
        inside = np.where((x > low) & (x < high), x, np.zeros_like(x)).astype(dtype)
    return np.where(x >= high, limits.max, np.where(x <= low, limits.min, inside)).astype(dtype)


def cast(x: Var, dtype: Dtype) -> Var:
    """Cast x to another dtype."""
    return Cast(x.dtype, dtype)(x) if x.dtype is not dtype else x
