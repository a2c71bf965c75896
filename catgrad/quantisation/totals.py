"""Sums of products in int32: of weights, with zero points that are subtracted afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from catgrad import ops
from catgrad.ops.quantised import LEAST, MOST
from catgrad.ops.reduce import Broadcast, Sum
from catgrad.quantisation.affine import LEVELS, Affine
from catgrad.quantisation.values import Eight, Summand, Sums, Weights
from catgrad.terms.structural import Constant
from catgrad.types import Array, Dtype


class Place(NamedTuple):
    """The axes of weights in a sum: those that are summed, the order of others, and new axes."""

    summed: Sequence[int]
    order: Sequence[int]
    new: Sequence[int]

    def of(self, array: Array) -> Array:
        """Return numbers of size 1 along the summed axes as those of the sum."""
        return np.expand_dims(np.squeeze(array, tuple(self.summed)).transpose(self.order), tuple(self.new))

    def summed_over(self, levels: Any, shape: Any) -> Any:
        """Return the sums of weights that train, in the shape of the sum."""
        totals = Sum(levels.shape, tuple(self.summed))(ops.cast(levels, Dtype.int32))
        return Broadcast(shape, tuple(self.new))(ops.permute(totals, *self.order))


def weighed(total: Any, scales: Array, x: Affine, w: Weights, place: Place, layer: str, count: int) -> Sums:
    """Return sums of as many products of levels with weights."""
    axes = (1,) * total.type.rank
    if w.levels is not None:
        wide = w.levels.astype(np.int64)
        sums, absolute = (place.of(a.sum(tuple(place.summed), keepdims=True)) for a in (wide, np.abs(wide)))
        summand = Summand(total, scales * x.scale, x.zero * sums, -LEAST * absolute)
    else:
        if x.zero:
            total = total - place.summed_over(w.q, total.shape) * x.zero
        bound = np.full(axes, count * MOST * LEVELS)
        summand = Summand(total, scales * x.scale, np.zeros(axes, np.int64), bound)
    return Sums((summand,), np.zeros(axes), layer=layer)


def scaled(total: Any, factor: Any, bound: float, centre: int = 0) -> Sums:
    """Return sums that have one factor."""
    axes = (1,) * total.type.rank
    summand = Summand(total, factor * np.ones(axes), np.full(axes, centre, np.int64), np.full(axes, bound))
    return Sums((summand,), np.zeros(axes))


def centred(x: Eight, dtype: Dtype = Dtype.int32) -> Any:
    """Return q - z in int32."""
    wide = ops.cast(x.q, dtype)
    return wide - x.affine.zero if x.affine.zero else wide


def fenced(x: Any, margins: Sequence[tuple[Any, Any]], level: int) -> Any:
    """Pad with a level."""
    for axis, pair in enumerate(margins):
        shapes = ((*x.shape[:axis], width, *x.shape[axis + 1 :]) for width in pair)
        before, after = ([Constant(x.type.with_shape(s), level)()] if s[axis] != 0 else [] for s in shapes)
        x = ops.concat([*before, x, *after], axis)
    return x
