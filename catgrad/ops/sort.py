"""Sorting along an axis: the primitive argsort, and sort and top-k by its indices."""

from __future__ import annotations

import numpy as np

from catgrad.errors import OptionError
from catgrad.ops.shape import normalised
from catgrad.ops.slices import slice
from catgrad.ops.take import take_along_axis
from catgrad.terms.op import Examples, Op, Types, numeric
from catgrad.terms.structural import zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

__all__ = ["argsort", "sort", "top_k"]


class ArgSort(Op):
    """Argsort: the indices that sort the elements along an axis, ascending or descending.

    Equal elements keep their order, and a NaN counts as greatest.

    Type:     (T) -> i64, for numeric T
    Raises:   OptionError if there is no such axis
    Gradient: 0
    """

    axis: int
    descending: bool = False
    result = "places"

    def type(self, x: NdArrayType) -> Types:
        normalised(self.axis, x.rank)
        return NdArrayType(numeric(x).shape, Dtype.int64)

    def ref(self, x: Array) -> Array:
        if not self.descending:
            return np.argsort(x, axis=self.axis, kind="stable")
        # Reversed twice: the order is reversed, but equal elements keep theirs.
        places = np.argsort(np.flip(x, self.axis), axis=self.axis, kind="stable")
        return x.shape[self.axis] - 1 - np.flip(places, self.axis)

    def rev(self, x: Var, dy: Var) -> Var:
        return zeros_like(x)

    @classmethod
    def examples(cls) -> Examples:
        return [
            (ArgSort(0), (NdArrayType((4,)),)),
            (ArgSort(1, descending=True), (NdArrayType((2, 5)),)),
            (ArgSort(1, descending=True), (NdArrayType((2, 5), Dtype.int32),)),
            (ArgSort(1), (NdArrayType((2, 4, 3), Dtype.int64),)),
            (ArgSort(0, descending=True), (NdArrayType((0, 3)),)),
        ]


def argsort(x: Var, axis: int = -1, descending: bool = False) -> Var:
    """Return the indices that sort along an axis; the sort is stable, NaN counts as greatest."""
    (place,) = normalised(axis, x.type.rank)
    return ArgSort(place, descending)(x)


def sort(x: Var, axis: int = -1, descending: bool = False) -> tuple[Var, Var]:
    """Sort along an axis; return the elements and their indices.

    Type:     (T) -> (T, i64)
    Gradient: each element of dy goes back to the place its element came from
    """
    places = argsort(x, axis, descending)
    return take_along_axis(x, places, axis), places


def top_k(x: Var, k: int, axis: int = -1, largest: bool = True) -> tuple[Var, Var]:
    """Return the k greatest, or least, elements along an axis in order, and their indices.

    Of equal elements the first are taken, and a NaN counts as greatest.

    Type:     (T[…, n, …]) -> (T[…, k, …], i64[…, k, …])
    Raises:   OptionError unless 0 ≤ k ≤ n; at run time, where n is symbolic
    Gradient: each element of dy goes to the place its element came from, elsewhere it is 0
    """
    (place,) = normalised(axis, x.type.rank)
    count = x.shape[place]
    if k < 0 or (isinstance(count, int) and k > count):
        raise OptionError(
            f"k must lie between 0 and the size of axis {place} of {x.type}",
            f"it is {k}",
            "choose fewer, or another axis",
        )
    sizes = (*x.shape[:place], k, *x.shape[place + 1 :])
    places = slice(argsort(x, place, descending=largest), (0,) * len(sizes), sizes)
    return take_along_axis(x, places, place), places
