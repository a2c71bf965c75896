"""Indexing: embedding, gather, index_select, max and min with indices."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any

from catgrad import ops
from catgrad.dims import Size
from catgrad.frontends.torch.aten.operands import at, axes_of, common_shape
from catgrad.frontends.torch.aten.scalars import takes_scalars
from catgrad.frontends.torch.registry import aten, require
from catgrad.terms.structural import stop_gradient
from catgrad.terms.var import Var
from catgrad.types import Dtype


@aten("embedding.default")
def embedding(
    weight: Var, index: Var, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Var:
    """Embedding: rows by index; the row `padding_idx` gets no gradient."""
    require(
        not scale_grad_by_freq,
        "gradients of an embedding must not be scaled by frequency",
        "it has scale_grad_by_freq",
        "leave it out",
    )
    rows = ops.gather(weight, index)
    if padding_idx < 0:
        return rows
    padding = ops.broadcast(index == padding_idx, rows.shape, [rows.type.rank - 1])
    return ops.select(padding, stop_gradient(rows), rows)


@aten("index_select.default")
@takes_scalars()
def index_select(x: Var, dim: int, index: Var) -> Var:
    """Select the slices of x at these indices along an axis."""
    return ops.take(x, index, dim)


@aten("gather.default")
@takes_scalars(like=2)
def gather(x: Var, dim: int, index: Var, sparse_grad: bool = False) -> Var:
    """Gather the elements of x at these indices along an axis; other indices are unchanged."""
    (axis,) = axes_of(x, dim)
    sizes = [size if k == axis else index.shape[k] for k, size in enumerate(x.shape)]
    return ops.take_along_axis(ops.slice(x, [0] * x.type.rank, sizes), index, axis)


@aten("index.Tensor", "_unsafe_index.Tensor")
def advanced(x: Var, indices: list[Any]) -> Var:
    """Index x by arrays along several axes, as in NumPy."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    require(
        all(indices[axis].dtype is not Dtype.bool for axis in axes),
        "an index must be an integer array, so that sizes do not depend on data",
        "one is a boolean mask",
        "use torch.where(mask, x, y)",
    )
    others = [axis for axis in range(x.type.rank) if axis not in axes]
    rows = ops.reshape(ops.permute(x, *axes, *others), -1, *(x.shape[axis] for axis in others))
    number = number_of_place(x, indices)
    parts = ops.gather(rows, number)
    if all(after == before + 1 for before, after in pairwise(axes)):
        return _moved(parts, number.type.rank, axes[0])
    return parts


def number_of_place(x: Var, indices: list[Any]) -> Any:
    """Return the numbers of places in the indexed axes, in row-major order."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    shape = common_shape(*(indices[axis].shape for axis in axes))
    number = None
    for k, axis in enumerate(axes):
        place = from_start(ops.broadcast_to(indices[axis], shape), x.shape[axis])
        stride = prod(x.shape[later] for later in axes[k + 1 :])
        wide = ops.cast(place, Dtype.int64)
        term = wide * at(stride, shape, Dtype.int64) if len(axes) > 1 else place
        number = term if number is None else number + term
    return number


def _extremum(name: str, place_of: Callable[[Var, int], Var]) -> None:
    """Register extrema along an axis and their indices; the gradient goes to the first."""

    @aten(f"{name}.dim")
    @takes_scalars()
    def extremum(x: Var, dim: int, keepdim: bool = False) -> tuple[Var, Var]:
        place = place_of(x, dim)
        (axis,) = axes_of(x, dim)
        kept = ops.expand_dims(place, axis)
        values = ops.take_along_axis(x, kept, axis)
        return (values, kept) if keepdim else (ops.squeeze(values, axis), place)


_extremum("max", ops.argmax)
_extremum("min", ops.argmin)


def from_start(index: Var, size: Size) -> Var:
    """Map negative indices, which count from the end, to non-negative ones."""
    return ops.select(index < 0, index + at(size, index.shape, index.dtype), index)


def _moved(x: Var, count: int, place: int) -> Var:
    """Return the first `count` axes moved behind the `place` that follow them."""
    first, rest = list(range(count)), list(range(count, x.type.rank))
    return ops.permute(x, *rest[:place], *first, *rest[place:])
