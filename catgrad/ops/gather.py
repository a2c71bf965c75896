"""Gather, which reads rows by index, and ScatterAdd, its reverse."""

from __future__ import annotations

import numpy as np

from catgrad.dims import Size, numbers
from catgrad.errors import DtypeError, ShapeError
from catgrad.terms.op import Examples, Op, Saves, Types, numeric
from catgrad.terms.structural import zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

__all__ = ["gather", "scatter_add"]

WHOLE = (Dtype.int32, Dtype.int64)


class Gather(Op):
    """Gather: rows of an array by their indices, y[i…] = x[index[i…]].

    Type:     (T[rows, …], I[m…]) -> T[m…, …] for integer I
    Raises:   DtypeError unless the numbers are whole; at run time, IndexError for one outside
              0 … rows - 1, negative ones included, or NaN in its place on a target that cannot raise
    Gradient: dx gets each row of dy where it was read (the reverse is ScatterAdd)
    """

    rows: Size
    saves = Saves(inputs=(1,))
    may_fail = True
    rounds_once = True

    def type(self, x: NdArrayType, index: NdArrayType) -> Types:
        require_integer(index)
        if not x.rank or x.shape[0] != self.rows:
            raise ShapeError(f"the array must have {self.rows} rows", f"it is {x}", "check the sizes")
        return x.with_shape(index.shape + x.shape[1:])

    def ref(self, x: Array, index: Array) -> Array:
        require_within(index, len(x))
        return x[index]

    def rev(self, index: Var, dy: Var) -> tuple[Var, Var]:
        return ScatterAdd(self.rows)(dy, index), zeros_like(index)

    @classmethod
    def examples(cls) -> Examples:
        index = NdArrayType((4,), Dtype.int64)
        return [
            (Gather(3), (NdArrayType((3, 2)), index)),
            (Gather(3), (NdArrayType((3,)), NdArrayType((2, 2), Dtype.int32))),
            (Gather(3), (NdArrayType((3, 2)), NdArrayType((0,), Dtype.int64))),
        ]


class ScatterAdd(Op):
    """Scatter-add: sums of rows by index, y[r] = Σ x[i…] over all i… with index[i…] = r.

    Type:     (T[m…, …], I[m…]) -> T[rows, …] for numeric T and whole I
    Raises:   as Gather
    Gradient: dx is the rows of dy (the reverse is Gather)
    """

    rows: Size
    saves = Saves(inputs=(1,))
    may_fail = True
    rounds_once = True
    reduces = True

    def type(self, x: NdArrayType, index: NdArrayType) -> Types:
        require_integer(index)
        if numeric(x).shape[: index.rank] != index.shape:
            raise ShapeError(
                "there must be one index for each row", f"they are {index} for {x}", "check the sizes"
            )
        return x.with_shape((self.rows, *x.shape[index.rank :]))

    def ref(self, x: Array, index: Array) -> Array:
        (rows,) = numbers((self.rows,))
        require_within(index, rows)
        y = np.zeros((rows, *x.shape[index.ndim :]), x.dtype)
        np.add.at(y, index, x)
        return y

    def rev(self, index: Var, dy: Var) -> tuple[Var, Var]:
        return Gather(self.rows)(dy, index), zeros_like(index)

    @classmethod
    def examples(cls) -> Examples:
        return [
            (ScatterAdd(op.rows), (op.outputs(*t)[0], t[1]))
            for op, t in Gather.examples()
            if isinstance(op, Gather)
        ]


def gather(x: Var, index: Var) -> Var:
    """Return the rows of x at these indices."""
    return Gather(x.shape[0] if x.shape else 0)(x, index)


def scatter_add(x: Var, index: Var, rows: Size) -> Var:
    """Return the sums of the rows of x by index, in an array with `rows` rows."""
    return ScatterAdd(rows)(x, index)


def require_integer(index: NdArrayType) -> None:
    """Raise DtypeError unless the indices are integers."""
    if index.dtype not in WHOLE:
        raise DtypeError("an index must be an integer array", f"it is {index}", "cast it to int64")


def require_within(index: Array, rows: int) -> None:
    """Raise IndexError unless the indices are in 0 … rows - 1."""
    if index.size and not (index.min() >= 0 and index.max() < rows):
        raise IndexError(f"an index must lie in 0 … {rows - 1}, but it reaches {index.min()} … {index.max()}")
