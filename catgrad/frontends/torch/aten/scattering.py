"""Assignment by index and by mask: scatter, index_put, index_add, masked_fill."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from catgrad import ops
from catgrad.frontends.torch.aten.comparisons import truth
from catgrad.frontends.torch.aten.indexing import number_of_place
from catgrad.frontends.torch.aten.operands import Operand, at, axes_of, common_shape, moved
from catgrad.frontends.torch.aten.scalars import takes_scalars
from catgrad.frontends.torch.registry import aten, require
from catgrad.ops.shape import Shape
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Dtype

REDUCTIONS = {"add": "sum", "multiply": "prod"}
"""Reductions of scatter by their names in scatter_reduce."""


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(x: Var, mask: Var, value: Operand) -> Var:
    """Replace the elements of x where the mask holds by one number."""
    shape = common_shape(x.shape, mask.shape)
    return ops.select(ops.broadcast_to(mask, shape), at(value, shape, x.dtype), ops.broadcast_to(x, shape))


@aten("masked_scatter.default")
def masked_scatter(x: Var, mask: Var, source: Var) -> Var:
    """Replace the elements of x where the mask holds by those of the source, in their order."""
    mask = ops.broadcast_to(mask, x.shape)
    chosen = ops.reshape(mask, -1)
    number = ops.cumsum(ops.cast(chosen, Dtype.int64)) - 1
    inside = ops.select(chosen, number, zeros_like(number))
    taken = ops.gather(ops.reshape(source, -1), inside)
    return ops.select(mask, ops.reshape(taken, *x.shape), x)


def _within(x: Var, shape: Shape) -> Var:
    """Return the first elements of x along each axis."""
    return x if x.shape == shape else ops.slice(x, [0] * x.type.rank, shape)


def _around(part: Var, x: Var, axis: int, change: Callable[[Var], Var]) -> Var:
    """Change the first elements of x along the other axes, as many as the part has."""
    sizes = tuple(n if k == axis else part.shape[k] for k, n in enumerate(x.shape))
    changed = change(_within(x, sizes))
    if sizes == x.shape:
        return changed
    for k in range(x.type.rank - 1, -1, -1):
        missing = x.shape[k] - changed.shape[k]
        if missing:
            starts = [changed.shape[k] if j == k else 0 for j in range(x.type.rank)]
            rest = tuple(
                missing if j == k else (x.shape[j] if j > k else changed.shape[j]) for j in range(x.type.rank)
            )
            changed = ops.concat([changed, ops.slice(x, starts, rest)], k)
    return changed


@aten("scatter.src", "scatter.value")
@takes_scalars()
def scatter(x: Var, dim: int, index: Var, source: Var | float) -> Var:
    """Replace the elements of x at these indices along an axis; of several, the last is kept."""
    (axis,) = axes_of(x, dim)
    if not isinstance(source, Var):
        return _around(index, x, axis, lambda part: _filled(part, axis, index, source))
    values = _within(source, index.shape)
    return _as_numbers(
        lambda x, v: _around(v, x, axis, lambda p: ops.put_along_axis(p, index, v, axis)), x, values
    )


def _filled(x: Var, axis: int, index: Var, value: float) -> Var:
    """Replace the elements of x at these indices along an axis by one number."""
    ones = Constant(index.type, 1)()
    hit = ops.scatter_add_along_axis(ones, index, x.shape[axis], axis) > 0
    return ops.select(hit, Constant(x.type, value)(), x)


def _as_numbers(function: Callable[..., Var], *arrays: Var) -> Var:
    """Apply a function of numbers to booleans, as 0 and 1."""
    if arrays[0].dtype is not Dtype.bool:
        return function(*arrays)
    return truth(function(*(ops.cast(x, Dtype.int32) for x in arrays)))


@aten("scatter_add.default")
@takes_scalars()
def scatter_add(x: Var, dim: int, index: Var, source: Var) -> Var:
    """Add elements to those of x at these indices along an axis."""
    return scatter_reduce(x, dim, index, source, "sum")


@aten("scatter.reduce", "scatter.value_reduce")
@takes_scalars()
def scatter_with(x: Var, dim: int, index: Var, source: Operand, reduce: str) -> Var:
    """Add elements to those of x at these indices along an axis, or multiply them."""
    values = source if isinstance(source, Var) else at(source, index.shape, x.dtype)
    return scatter_reduce(x, dim, index, values, REDUCTIONS[reduce])


@aten("scatter_reduce.two")
@takes_scalars()
def scatter_reduce(x: Var, dim: int, index: Var, source: Var, reduce: str, include_self: bool = True) -> Var:
    """Reduce the elements of one index along an axis, and that of x: to a sum, mean, product or extremum."""
    (axis,) = axes_of(x, dim)
    values = _within(source, index.shape)
    combine = _added if reduce in ("sum", "mean") else _reduced
    return _around(values, x, axis, lambda part: combine(part, index, values, axis, reduce, include_self))


def _added(x: Var, index: Var, values: Var, axis: int, reduce: str, include_self: bool) -> Var:
    size = x.shape[axis]
    ones = Constant(values.type, 1)()
    count = ops.scatter_add_along_axis(ones, index, size, axis)
    kept = x if include_self else ops.select(count > 0, zeros_like(x), x)
    total = kept + ops.scatter_add_along_axis(values, index, size, axis)
    if reduce == "sum":
        return total
    count = count + 1 if include_self else ops.select(count > 0, count, Constant(count.type, 1)())
    return total / count if x.dtype.is_floating else ops.floor_divide(total, count)


def _reduced(x: Var, index: Var, values: Var, axis: int, reduce: str, include_self: bool) -> Var:
    """Reduce a table of all values by all places, in which other values are neutral."""
    limits = x.dtype.limits
    least, most = (-inf, inf) if x.dtype.is_floating else (limits.min, limits.max)
    neutral = {"prod": 1, "amax": least, "amin": most}[reduce]
    reduction = {"prod": ops.prod, "amax": ops.max, "amin": ops.min}[reduce]
    size, at_end = x.shape[axis], moved(index, axis, -1)
    table = (*at_end.shape, size)
    hits = ops.broadcast(at_end, table, [len(table) - 1]) == ops.broadcast(ops.iota(size, index.dtype), table)
    candidates = ops.broadcast(moved(values, axis, -1), table, [len(table) - 1])
    candidates = ops.select(hits, candidates, Constant(candidates.type, neutral)())
    own = moved(x, axis, -1)
    if not include_self:
        own = ops.select(ops.any(hits, -2), Constant(own.type, neutral)(), own)
    return moved(reduction(ops.concat([ops.expand_dims(own, -2), candidates], -2), -2), -1, axis)


@aten("index_add.default")
@takes_scalars()
def index_add(x: Var, dim: int, index: Var, source: Var, alpha: float = 1) -> Var:
    """Add slices to those of x at these indices along an axis: x + alpha · Σ source."""
    (axis,) = axes_of(x, dim)
    total = moved(ops.scatter_add(moved(source, axis, 0), index, x.shape[axis]), 0, axis)
    return x + (total if alpha == 1 else total * alpha)


@aten("index_copy.default")
@takes_scalars()
def index_copy(x: Var, dim: int, index: Var, source: Var) -> Var:
    """Replace the slices of x at these indices along an axis; of several, the last is kept."""
    (axis,) = axes_of(x, dim)
    return _as_numbers(
        lambda x, s: moved(ops.put(moved(x, axis, 0), index, moved(s, axis, 0)), 0, axis), x, source
    )


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
@takes_scalars()
def index_fill(x: Var, dim: int, index: Var, value: Operand) -> Var:
    """Replace the slices of x at these indices along an axis by one number."""
    (axis,) = axes_of(x, dim)
    places = ops.reshape(index, -1)  # a scalar is one place, too
    hit = ops.scatter_add(Constant(places.type, 1)(), places, x.shape[axis]) > 0
    others = [k for k in range(x.type.rank) if k != axis]
    return ops.select(ops.broadcast(hit, x.shape, others), at(value, x.shape, x.dtype), x)


@aten("index_reduce.default")
@takes_scalars()
def index_reduce(x: Var, dim: int, index: Var, source: Var, reduce: str, include_self: bool = True) -> Var:
    """Reduce all slices of one index along an axis, and that of x, as scatter_reduce does."""
    (axis,) = axes_of(x, dim)
    places = ops.broadcast(index, source.shape, [k for k in range(x.type.rank) if k != axis])
    return scatter_reduce(x, axis, places, source, reduce, include_self)


@aten("index_put.default", "_unsafe_index_put.default")
def index_put(x: Var, indices: list[Any], values: Var, accumulate: bool = False) -> Var:
    """Replace the elements of x at these indices, or add to them; a mask selects where one number goes."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    if any(indices[axis].dtype is Dtype.bool for axis in axes):
        return _put_at_mask(x, indices, values, accumulate)
    others = [axis for axis in range(x.type.rank) if axis not in axes]
    number = number_of_place(x, indices)
    adjacent = axes == list(range(axes[0], axes[-1] + 1))
    place = axes[0] if adjacent else 0
    kept = tuple(x.shape[axis] for axis in others)
    spot = (*kept[:place], *number.shape, *kept[place:])
    count = number.type.rank
    source = ops.permute(
        at(values, spot, x.dtype),
        *range(place, place + count),
        *range(place),
        *range(place + count, len(spot)),
    )
    rows = ops.reshape(ops.permute(x, *axes, *others), -1, *kept)
    flat = ops.reshape(number, -1), ops.reshape(source, -1, *kept)

    def changed(rows: Var, source: Var) -> Var:
        if accumulate:
            return rows + ops.scatter_add(source, flat[0], rows.shape[0])
        return ops.put(rows, flat[0], source)

    result = ops.reshape(_as_numbers(changed, rows, flat[1]), *(x.shape[axis] for axis in axes), *kept)
    order = [*axes, *others]
    return ops.permute(result, *(order.index(axis) for axis in range(x.type.rank)))


def _put_at_mask(x: Var, indices: list[Any], values: Var, accumulate: bool) -> Var:
    """Replace elements where a mask of the leading axes holds by values that are the same for each."""
    mask = indices[0]
    rest = x.shape[mask.type.rank :] if mask is not None else ()
    require(
        mask is not None
        and all(index is None for index in indices[1:])
        and (values.type.rank <= len(rest) or values.shape[0] == 1),
        "a mask that is assigned to must be the only index, with one value for all its elements",
        f"there are values {values.type} for {x.type}",
        "use torch.where",
    )
    value = values if values.type.rank <= len(rest) else ops.squeeze(values, 0)
    new = at(value, x.shape, x.dtype)
    hit = ops.broadcast(mask, x.shape, range(mask.type.rank, x.type.rank))
    return ops.select(hit, x + new if accumulate else new, x)
