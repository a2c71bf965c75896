"""Sampling on a grid, pooling with indices, and bags of embeddings."""

from __future__ import annotations

from math import inf, prod
from typing import Any

from catgrad import ops
from catgrad.dims import Size
from catgrad.frontends.torch.aten.images import Numbers, each
from catgrad.frontends.torch.aten.parts import pad
from catgrad.frontends.torch.aten.sorting import search
from catgrad.frontends.torch.registry import aten, real, require
from catgrad.ops.grid import grid_sample
from catgrad.ops.shape import Axes
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var

SUM, MEAN, MAX = range(3)


@aten("grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(x: Var, grid: Var, interpolation: int, padding: int, align_corners: bool) -> Any:
    """Sample images at the points of a grid: linear, nearest or cubic; zeros, border or reflection beyond."""
    return grid_sample(x, grid, interpolation, padding, align_corners)


def _pooling(spatial: int) -> None:
    @aten(f"max_pool{spatial}d_with_indices.default")
    def max_pool_with_indices(
        x: Var,
        size: Numbers,
        stride: Numbers = (),
        padding: Numbers = 0,
        dilation: Numbers = 1,
        ceil_mode: bool = False,
    ) -> tuple[Var, Var]:
        values = real(f"max_pool{spatial}d.default")(x, size, stride, padding, dilation, ceil_mode)
        k, p, d = (each(numbers, spatial) for numbers in (size, padding, dilation))
        return values, _indices(ops.stop_gradient(x), k, each(stride, spatial) or k, p, d)


for _spatial in (2, 3):
    _pooling(_spatial)


def _indices(x: Var, k: Axes, s: Axes, p: Axes, d: Axes) -> Any:
    """Return the flat index in each image of the greatest element of each window."""
    spatial, lead = len(k), x.type.rank - len(k)
    margins = [margin for margin in reversed(p) for _ in range(2)]
    axes = tuple(range(lead, x.type.rank))
    windows = ops.window(pad(x, margins, -inf), axes, k, s, d)
    counts = windows.shape[lead : lead + spatial]
    place = ops.argmax(ops.reshape(windows, *x.shape[:lead], *counts, prod(k)))
    index: Any = zeros_like(place)
    for axis in range(spatial):
        inner = prod(k[axis + 1 :])
        offset = place if inner == 1 else ops.floor_divide(place, Constant(place.type, inner)())
        if axis:
            offset = ops.remainder(offset, Constant(place.type, k[axis])())
        others = [j for j in range(place.type.rank) if j != lead + axis]
        start = ops.broadcast(ops.iota(counts[axis]) * s[axis] - p[axis], place.shape, others)
        index = index * x.shape[lead + axis] + (start + offset * d[axis])
    return index


@aten("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(
    weight: Var,
    indices: Var,
    offsets: Var,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Var | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Var, None, None, None]:
    """Sum, mean or maximum of the rows of each bag, which begins at its offset; 0 of an empty bag."""
    require(
        not scale_grad_by_freq,
        "gradients of an embedding must not be scaled by frequency",
        "the bag has scale_grad_by_freq",
        "leave it out",
    )
    bags = offsets.shape[0] - include_last_offset
    starts = ops.slice(offsets, [0], [bags])
    places = ops.iota(indices.shape[0], offsets.dtype)
    bag = search(starts, places, right=True) - 1
    counts = indices != padding_idx
    rows = ops.gather(weight, indices)
    wide = ops.broadcast(counts, rows.shape, [1])
    if mode == MAX:
        return _greatest(rows, bag, counts, bags), None, None, None
    if per_sample_weights is not None:
        rows = rows * ops.broadcast(per_sample_weights, rows.shape, [1])
    total = ops.scatter_add(ops.select(wide, rows, zeros_like(rows)), bag, bags)
    if mode == MEAN:
        count = ops.scatter_add(ops.cast(counts, rows.dtype), bag, bags)
        least = ops.select(count > 0, count, Constant(count.type, 1)())
        total = total / ops.broadcast(least, total.shape, [1])
    return total, None, None, None


def _greatest(rows: Var, bag: Var, counts: Var, bags: Size) -> Var:
    """Return the maxima of the rows of each bag, of which the first gets the gradient."""
    n, d = rows.shape
    table = (bags, d, n)
    own = ops.broadcast(bag, table, [0, 1]) == ops.broadcast(ops.iota(bags), table, [1, 2])
    own = own & ops.broadcast(counts, table, [0, 1])
    values = ops.broadcast(ops.permute(rows, 1, 0), table, [0])
    values = ops.select(own, values, Constant(values.type, -inf)())
    place = ops.expand_dims(ops.argmax(ops.stop_gradient(values)), 2)
    greatest = ops.squeeze(ops.take_along_axis(values, place, 2), 2)
    return ops.select(ops.any(own, 2), greatest, zeros_like(greatest))
