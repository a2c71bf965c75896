"""Sums of products in int32: of weights, with zero points that are subtracted afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

import numpy as np

from catgrad import ops
from catgrad.dims import Size
from catgrad.ops.quantised import LEAST, MOST
from catgrad.ops.reduce import Broadcast, Sum
from catgrad.quantisation.affine import LEVELS, Affine
from catgrad.quantisation.values import Eight, Summand, Sums, Weights
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype

MAX_SUMMED = 2**31 // LEVELS**2
"""The number of products of two differences of levels whose sum is within int32."""


class Place(NamedTuple):
    """The axes of a factor in a sum of products: those that are summed, the order of others, and new axes."""

    summed: Sequence[int]
    order: Sequence[int]
    new: Sequence[int]

    @classmethod
    def within(cls, axes: Sequence[int], out: Sequence[int]) -> Place:
        """Return that of a factor with these labels of axes, in a contraction with those of the sum."""
        kept = [label for label in axes if label in out]
        return cls(
            [k for k, label in enumerate(axes) if label not in out],
            sorted(range(len(kept)), key=lambda k: out.index(kept[k])),
            [k for k, label in enumerate(out) if label not in kept],
        )

    def of(self, array: Array) -> Array:
        """Return numbers of size 1 along the summed axes as those of the sum."""
        return np.expand_dims(np.squeeze(array, tuple(self.summed)).transpose(self.order), tuple(self.new))

    def summed_over(self, levels: Var, total: Var) -> Var:
        """Return the sums of levels in the shape of the sum of products."""
        sums = Sum(levels.shape, tuple(self.summed))(ops.cast(levels, total.dtype))
        return Broadcast(total.shape, tuple(self.new))(ops.permute(sums, *self.order))


def is_within_int32(count: Size) -> TypeGuard[int]:
    """Tell whether the sum of so many products of differences of levels is one of int32."""
    return isinstance(count, int) and count <= MAX_SUMMED


def new_axes(sizes: Sequence[int], shape: tuple[Size, ...]) -> tuple[int, ...]:
    """Return the axes of size 1 that are longer in a shape."""
    return tuple(k for k, size in enumerate(sizes) if size == 1 and shape[k] != 1)


def weighed(total: Var, scales: Array, x: Affine, w: Weights, place: Place, layer: str, count: int) -> Sums:
    """Return sums of as many products of levels with weights."""
    axes = (1,) * total.type.rank
    if w.levels is not None:
        wide = w.levels.astype(np.int64)
        sums, absolute = (place.of(a.sum(tuple(place.summed), keepdims=True)) for a in (wide, np.abs(wide)))
        summand = Summand(total, scales * x.scale, x.zero * sums, -LEAST * absolute)
    else:
        if x.zero:
            total = total - place.summed_over(w.q, total) * x.zero
        bound = np.full(axes, count * MOST * LEVELS)
        summand = Summand(total, scales * x.scale, np.zeros(axes, np.int64), bound)
    return Sums((summand,), np.zeros(axes), layer=layer)


def scaled(total: Var, factor: Array | float, bound: float, centre: int = 0) -> Sums:
    """Return sums that have one factor."""
    axes = (1,) * total.type.rank
    summand = Summand(total, factor * np.ones(axes), np.full(axes, centre, np.int64), np.full(axes, bound))
    return Sums((summand,), np.zeros(axes))


def centred(x: Eight, dtype: Dtype = Dtype.int32) -> Var:
    """Return q - z in int32."""
    wide = ops.cast(x.q, dtype)
    return wide - x.affine.zero if x.affine.zero else wide


def clamped(q: Var, low: int, high: int) -> Var:
    """Clamp an int8 array to levels within those of int8."""
    if (low, high) == (LEAST, MOST):
        return q
    wide = ops.cast(q, Dtype.int32)
    least, most = (Constant(wide.type, bound)() for bound in (low, high))
    return ops.cast(ops.minimum(ops.maximum(wide, least), most), Dtype.int8)


def fenced(x: Var, margins: Sequence[tuple[Size, Size]], level: int) -> Var:
    """Pad with a level."""
    for axis, pair in enumerate(margins):
        shapes = ((*x.shape[:axis], width, *x.shape[axis + 1 :]) for width in pair)
        before, after = ([Constant(x.type.with_shape(s), level)()] if s[axis] != 0 else [] for s in shapes)
        x = ops.concat([*before, x, *after], axis)
    return x
