"""Contraction: products of elements of two arrays, summed over shared axes (einsum)."""

from __future__ import annotations

from string import ascii_letters
from typing import Any

import numpy as np

from catgrad.dims import Size, product
from catgrad.errors import DtypeError, OptionError, ShapeError
from catgrad.terms.op import INPUTS, SYMBOLS, Examples, Op, Types
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType

__all__ = ["contract", "matmul"]

Axes = tuple[int, ...]


class Contract(Op):
    """Contraction: z[out] = Σ x[left] · y[right], summed over the labels that are not in `out`.

    Each axis has a label; equal labels are the same index. A label of one operand is in the
    other operand, in the output, or in both, which makes contractions closed under reverse. Sums
    of 16-bit numbers are formed in float32.

    Type:     (T[left], T[right]) -> T[out], for numeric T
    Raises:   ShapeError if axes with one label differ in size; OptionError for other labellings
    Gradient: dx = contract(dz, y), dy = contract(x, dz)
    """

    left: Axes
    right: Axes
    out: Axes
    multilinear = True
    contracts = True
    saves = INPUTS
    rounds_once = True
    result = "product"

    def __post_init__(self) -> None:
        # Labels are numbered by first use, so equal contractions compare equal.
        number = {label: k for k, label in enumerate(dict.fromkeys((*self.left, *self.right, *self.out)))}
        for side in ("left", "right", "out"):
            object.__setattr__(self, side, tuple(number[label] for label in getattr(self, side)))

    def type(self, x: NdArrayType, y: NdArrayType) -> Types:
        if x.dtype is not y.dtype or not x.dtype.is_numeric:
            raise DtypeError(
                "operands must have one numeric dtype", f"they are {x} and {y}", "cast one of them"
            )
        self._check_labels(x, y)
        sizes: dict[int, Size] = {}
        for axes, array in ((self.left, x), (self.right, y)):
            for label, size in zip(axes, array.shape, strict=True):
                if sizes.setdefault(label, size) != size:
                    raise ShapeError(
                        "axes that are multiplied together must have one size",
                        f"they are {sizes[label]} and {size}, with x {x} and y {y}",
                        "transpose an operand or check the layer's sizes",
                    )
        return x.with_shape(tuple(sizes[label] for label in self.out))

    def flops(self, x: NdArrayType, y: NdArrayType) -> Size:
        """Count two for each product of elements: a multiplication and an addition."""
        sizes = dict(zip((*self.left, *self.right), (*x.shape, *y.shape), strict=True))
        return 2 * product(tuple(sizes.values()))

    def _check_labels(self, x: NdArrayType, y: NdArrayType) -> None:
        left, right, out = set(self.left), set(self.right), set(self.out)
        fits = len(self.left) == x.rank and len(self.right) == y.rank
        once = len(left) + len(right) + len(out) == len(self.left) + len(self.right) + len(self.out)
        twice = out <= left | right and left <= right | out and right <= left | out
        if not (fits and once and twice):
            raise OptionError(
                "each axis must have one label, which two of x, y and the output share",
                f"the labels are {self.left}, {self.right} -> {self.out} for {x} and {y}",
                "sum or broadcast the other axes separately",
            )

    @property
    def subscripts(self) -> str:
        """The labels in Einstein's notation: `ab,bc->ac`."""
        left, right, out = (
            "".join(ascii_letters[a] for a in axes) for axes in (self.left, self.right, self.out)
        )
        return f"{left},{right}->{out}"

    def ref(self, x: Array, y: Array) -> Any:
        return np.einsum(x, list(self.left), y, list(self.right), list(self.out), optimize=True)

    def rev(self, x: Var, y: Var, dz: Var) -> tuple[Var, Var]:
        return Contract(self.out, self.right, self.left)(dz, y), Contract(self.left, self.out, self.right)(
            x, dz
        )

    @classmethod
    def examples(cls) -> Examples:
        cases: list[tuple[Contract, Axes, Axes]] = [
            (Contract((0, 1), (1, 2), (0, 2)), (2, 3), (3, 4)),
            (Contract((0, 1), (1, 2), (2, 0)), (2, 3), (3, 4)),
            (Contract((0, 1, 2), (0, 2, 3), (0, 1, 3)), (5, 2, 3), (5, 3, 4)),
            (Contract((0, 1, 2), (2, 3), (0, 1, 3)), (5, 2, 3), (3, 4)),
            (Contract((0, 1, 2), (0, 1, 3), (2, 3)), (5, 2, 3), (5, 2, 4)),
            (Contract((0, 1), (1,), (0,)), (2, 3), (3,)),
            (Contract((0,), (0,), ()), (3,), (3,)),
            (Contract((0,), (1,), (1, 0)), (2,), (3,)),
            (Contract((0, 1), (1, 2), (0, 2)), (2, 0), (0, 3)),
        ]
        return [(op, (NdArrayType(x), NdArrayType(y))) for op, x, y in cases]


def contract(x: Var, y: Var, axes: int) -> Var:
    """Contract the last `axes` axes of x with the first of y: A ⊗ B, B ⊗ C → A ⊗ C."""
    m, n = x.type.rank, y.type.rank
    if not isinstance(axes, int) or not 0 <= axes <= min(m, n):
        raise OptionError(
            f"the number of contracted axes must lie between 0 and {min(m, n)}",
            f"it is {axes}",
            "count the axes that both arrays share",
        )
    right = tuple(range(m - axes, m + n - axes))
    return Contract(tuple(range(m)), right, tuple(range(m - axes)) + right[axes:])(x, y)


def matmul(x: Var, y: Var) -> Var:
    """Matrix product z = x · y over the last axis of x; leading axes of y are a batch.

    Type: (T[…, m, k], T[k, n]) -> T[…, m, n], or (T[b…, m, k], T[b…, k, n]) -> T[b…, m, n]
    """
    if not (x.type.rank and y.type.rank):
        raise OptionError(
            "the operands of @ must have axes", f"they are {x.type} and {y.type}", "use * for numbers"
        )
    if y.type.rank <= 2:
        return contract(x, y, 1)
    batch = tuple(range(y.type.rank - 2))
    m, k, n = len(batch), len(batch) + 1, len(batch) + 2
    return Contract((*batch, m, k), (*batch, k, n), (*batch, m, n))(x, y)


SYMBOLS["@"] = matmul
