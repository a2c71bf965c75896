"""Sorting, order statistics, and search in sorted sequences."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from catgrad import ops
from catgrad.dims import Size
from catgrad.frontends.torch.aten.operands import Operand, at, axes_of, promoted
from catgrad.frontends.torch.aten.scalars import takes_scalars
from catgrad.frontends.torch.registry import aten
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType


@aten("sort.default")
def sort(x: Var, dim: int = -1, descending: bool = False) -> tuple[Var, Var]:
    """Sort along an axis; return the elements and their indices. A NaN counts as greatest."""
    if not x.type.rank:
        return x, Constant(NdArrayType((), Dtype.int64), 0)()
    numbers = ops.cast(x, Dtype.int32) if x.dtype is Dtype.bool else x
    values, places = ops.sort(numbers, dim, descending)
    return ops.cast(values, x.dtype), places


# All sorts are stable.
aten("sort.stable")(lambda x, stable=None, dim=-1, descending=False: sort(x, dim, descending))
aten("argsort.default")(lambda x, dim=-1, descending=False: sort(x, dim, descending)[1])
aten("argsort.stable")(lambda x, stable, dim=-1, descending=False: sort(x, dim, descending)[1])


def _element(x: Var, order: Var, place: Var, axis: int, keepdim: bool) -> tuple[Var, Var]:
    """Return the element of x at a place of an order along an axis, and its index."""
    index = ops.take_along_axis(order, place, axis)
    value = ops.take_along_axis(x, index, axis)
    return (value, index) if keepdim else (ops.squeeze(value, axis), ops.squeeze(index, axis))


def _one(x: Var, axis: int, value: Size) -> Var:
    """Return one index for each row along an axis."""
    return at(value, (*x.shape[:axis], 1, *x.shape[axis + 1 :]), Dtype.int64)


@aten("kthvalue.default")
@takes_scalars()
def kth_value(x: Var, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Var, Var]:
    """Return the k-th smallest element along an axis, counted from 1, and its index."""
    (axis,) = axes_of(x, dim)
    return _element(x, ops.argsort(x, axis), _one(x, axis, k - 1), axis, keepdim)


@aten("median.dim")
@takes_scalars()
def median(x: Var, dim: int, keepdim: bool = False) -> tuple[Var, Var]:
    """Return the lower median along an axis, and its index; NaN if an element is."""
    (axis,) = axes_of(x, dim)
    last = _one(x, axis, x.shape[axis] - 1)
    place = last // 2
    if x.dtype.is_floating:
        has_nan = ops.expand_dims(ops.any(x != x, axis), axis)  # a NaN is sorted to the end
        place = ops.select(has_nan, last, place)
    return _element(x, ops.argsort(x, axis), place, axis, keepdim)


@aten("nanmedian.dim")
@takes_scalars()
def median_of_numbers(x: Var, dim: int, keepdim: bool = False) -> tuple[Var, Var]:
    """Return the lower median of the elements along an axis that are not NaN, and its index."""
    (axis,) = axes_of(x, dim)
    count = ops.expand_dims(ops.sum(ops.cast(x == x, Dtype.int64), axis), axis)
    one = Constant(count.type, 1)()
    place = ops.floor_divide(ops.select(count > 0, count, one) - 1, one + one)
    return _element(x, ops.argsort(x, axis), place, axis, keepdim)


aten("median.default")(lambda x: _greatest_up_to(x, median))
aten("nanmedian.default")(lambda x: _greatest_up_to(x, median_of_numbers))


def _greatest_up_to(x: Var, statistic: Callable[[Var, int], tuple[Var, Var]]) -> Var:
    """Return an order statistic of all elements as a maximum, whose gradient is shared by equal elements."""
    flat = ops.reshape(x, -1)
    limit = ops.broadcast(statistic(ops.stop_gradient(flat), 0)[0], flat.shape)
    least = -inf if x.dtype.is_floating else x.dtype.limits.min
    return ops.max(ops.select((flat <= limit) | (limit != limit), flat, Constant(flat.type, least)()))


@aten("searchsorted.Tensor", "searchsorted.Scalar")
def search(
    sequence: Var,
    x: Operand,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Var | None = None,
) -> Var:
    """Return the place of x in sorted rows: the number of elements below it, or up to it if `right`."""
    if sorter is not None:
        sequence = ops.take_along_axis(sequence, sorter, -1)
    value = x if isinstance(x, Var) else at(x, (), sequence.dtype)
    lead = sequence.type.rank - 1
    table = (*value.shape, sequence.shape[-1])
    common = promoted(sequence, value)
    values = ops.broadcast(ops.cast(value, common), table, [len(table) - 1])
    rows = ops.broadcast(ops.cast(sequence, common), table, range(lead, len(table) - 1))
    # A NaN is behind all elements, so the relation is negated.
    is_after = rows > values if right or side == "right" else rows >= values
    return ops.sum(ops.cast(~is_after, Dtype.int32 if out_int32 else Dtype.int64), -1)


@aten("bucketize.Tensor", "bucketize.Scalar")
def bucketize(x: Var, boundaries: Var, out_int32: bool = False, right: bool = False) -> Var:
    """Return the bucket of each element: the number of boundaries below it, or up to it if `right`."""
    return search(boundaries, x, out_int32, right)


@aten("histc.default")
def histogram(x: Var, bins: int = 100, min: float = 0, max: float = 0) -> Var:
    """Count the elements in bins of one width from `min` to `max`, by default the extrema of x."""
    flat = ops.stop_gradient(ops.reshape(x, -1))
    if min == max == 0:
        low, high = (ops.broadcast(f(flat), flat.shape) for f in (ops.min, ops.max))
        one = Constant(flat.type, 1)()
        low, high = (
            ops.select(low == high, end, given) for end, given in ((low - one, low), (high + one, high))
        )
    else:
        low, high = Constant(flat.type, min)(), Constant(flat.type, max)()
    inside = (flat >= low) & (flat <= high)
    place = ops.cast((flat - low) * bins / (high - low), Dtype.int64)
    last = Constant(place.type, bins - 1)()
    place = ops.select(place > last, last, place)
    place = ops.select(inside, place, zeros_like(place))
    return ops.scatter_add(ops.cast(inside, x.dtype), place, bins)
