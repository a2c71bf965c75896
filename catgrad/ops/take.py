"""TakeAlongAxis, which reads elements by index, and ScatterAddAlongAxis, its reverse."""

from __future__ import annotations

import numpy as np

from catgrad.dims import Size, numbers
from catgrad.errors import ShapeError
from catgrad.ops.gather import gather, require_integer, require_within
from catgrad.ops.shape import normalised, permute
from catgrad.terms.op import Examples, Op, Saves, Types, numeric
from catgrad.terms.structural import zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

__all__ = ["scatter_add_along_axis", "take", "take_along_axis"]


class TakeAlongAxis(Op):
    """Elements by their indices along an axis: y[…, i, …] = x[…, index[…, i, …], …].

    Type:     (T[…, size, …], I[…, m, …]) -> T[…, m, …] for integer I, equal along the other axes
    Raises:   ShapeError, DtypeError; at run time, IndexError for a number outside 0 … size - 1
    Gradient: dx gets each element of dy where it was read (the reverse is ScatterAddAlongAxis)
    """

    axis: int
    size: Size
    saves = Saves(inputs=(1,))
    may_fail = True
    rounds_once = True
    result = "taken"

    def type(self, x: NdArrayType, index: NdArrayType) -> Types:
        require_integer(index)
        normalised(self.axis, x.rank)
        if x.shape != _with_size(index, self.axis, self.size):
            raise ShapeError(
                f"the array must have {self.size} elements along axis {self.axis}, and along the others "
                "the sizes of the indices",
                f"they are {x} and {index}",
                "broadcast the indices first",
            )
        return x.with_shape(index.shape)

    def ref(self, x: Array, index: Array) -> Array:
        require_within(index, x.shape[self.axis])
        return np.take_along_axis(x, index, axis=self.axis)

    def rev(self, index: Var, dy: Var) -> tuple[Var, Var]:
        return ScatterAddAlongAxis(self.axis, self.size)(dy, index), zeros_like(index)

    @classmethod
    def examples(cls) -> Examples:
        return [
            (TakeAlongAxis(0, 3), (NdArrayType((3,)), NdArrayType((4,), Dtype.int32))),
            (TakeAlongAxis(1, 3), (NdArrayType((2, 3)), NdArrayType((2, 5), Dtype.int64))),
            (TakeAlongAxis(1, 3), (NdArrayType((2, 3, 4)), NdArrayType((2, 1, 4), Dtype.int64))),
            (TakeAlongAxis(0, 3), (NdArrayType((3, 2)), NdArrayType((0, 2), Dtype.int64))),
        ]


class ScatterAddAlongAxis(Op):
    """Sums of elements by index along an axis: y[…, r, …] = Σ x[…, i, …] over index[…, i, …] = r.

    Type:     (T[…, m, …], I[…, m, …]) -> T[…, size, …] for numeric T and whole I
    Raises:   as TakeAlongAxis
    Gradient: dx is the elements of dy (the reverse is TakeAlongAxis)
    """

    axis: int
    size: Size
    saves = Saves(inputs=(1,))
    may_fail = True
    rounds_once = True
    result = "added"
    reduces = True

    def type(self, x: NdArrayType, index: NdArrayType) -> Types:
        require_integer(index)
        normalised(self.axis, x.rank)
        if numeric(x).shape != index.shape:
            raise ShapeError(
                "there must be one index for each element", f"they are {index} for {x}", "check the sizes"
            )
        return x.with_shape(_with_size(x, self.axis, self.size))

    def ref(self, x: Array, index: Array) -> Array:
        (size,) = numbers((self.size,))
        require_within(index, size)
        y = np.zeros(_with_size(x, self.axis, size), x.dtype)
        places = list(np.indices(index.shape, sparse=True))
        places[self.axis] = index
        np.add.at(y, tuple(places), x)
        return y

    def rev(self, index: Var, dy: Var) -> tuple[Var, Var]:
        return TakeAlongAxis(self.axis, self.size)(dy, index), zeros_like(index)

    @classmethod
    def examples(cls) -> Examples:
        return [
            (ScatterAddAlongAxis(op.axis, op.size), (op.outputs(*types)[0], types[1]))
            for op, types in TakeAlongAxis.examples()
            if isinstance(op, TakeAlongAxis)
        ]


def take_along_axis(x: Var, index: Var, axis: int = -1) -> Var:
    """Return the elements of x at these indices along an axis; other indices are unchanged."""
    (place,) = normalised(axis, x.type.rank)
    return TakeAlongAxis(place, x.shape[place])(x, index)


def scatter_add_along_axis(x: Var, index: Var, size: Size, axis: int = -1) -> Var:
    """Return the sums of the elements of x by index, in an array with `size` elements along an axis."""
    (place,) = normalised(axis, x.type.rank)
    return ScatterAddAlongAxis(place, size)(x, index)


def take(x: Var, index: Var, axis: int = 0) -> Var:
    """Return the slices of x at these indices along an axis: y[a…, i…, b…] = x[a…, index[i…], b…].

    Type: (T[a…, size, b…], I[m…]) -> T[a…, m…, b…] for integer I
    """
    rank, added = x.type.rank, index.type.rank
    (place,) = normalised(axis, rank)
    others = [other for other in range(rank) if other != place]
    rows = gather(permute(x, place, *others), index)
    before, after = range(added, added + place), range(added + place, added + rank - 1)
    return permute(rows, *before, *range(added), *after)


def _with_size(x: NdArrayType | Var | Array, axis: int, size: Size) -> tuple[Size, ...]:
    return (*x.shape[:axis], size, *x.shape[axis + 1 :])
