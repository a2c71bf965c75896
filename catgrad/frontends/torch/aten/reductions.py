"""Reductions: sums, means, extrema, quantifiers, softmax."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from typing import Any

from catgrad import ops
from catgrad.frontends.torch.aten.comparisons import truth
from catgrad.frontends.torch.aten.operands import as_floating, axes_of, dtype_from
from catgrad.frontends.torch.aten.scalars import takes_scalars
from catgrad.frontends.torch.registry import aten
from catgrad.ops.softmax import softmax_of_seen
from catgrad.terms.var import Var
from catgrad.types import Dtype


def with_reduced_axes(y: Any, axes: tuple[int, ...], keepdim: bool) -> Var:
    """Restore reduced axes with size 1 if `keepdim`."""
    return ops.expand_dims(y, axes) if keepdim and axes else y


@aten("sum.dim_IntList", "sum.default")
def total(x: Var, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Var:
    """Sum: Σ x; of integers and booleans in int64."""
    wide = x.dtype if x.dtype.is_floating else Dtype.int64
    axes = axes_of(x, dim)
    y = ops.sum(ops.cast(x, wide if dtype is None else dtype_from(dtype)), axes)
    return with_reduced_axes(y, axes, keepdim)


@aten("mean.dim", "mean.default")
def mean(x: Var, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Var:
    """Mean: Σ x / n."""
    axes = axes_of(x, dim)
    y = ops.mean(x if dtype is None else ops.cast(x, dtype_from(dtype)), axes)
    return with_reduced_axes(y, axes, keepdim)


def over_one_axis(x: Var, axes: tuple[int, ...], reduce: Callable[[Any], Any]) -> Any:
    """Reduce several axes as one: they are merged to the last axis."""
    others = [axis for axis in range(x.type.rank) if axis not in axes]
    if len(axes) == 1:
        return reduce(ops.permute(x, *others, *axes))
    size = prod(x.shape[axis] for axis in axes)
    return reduce(ops.reshape(ops.permute(x, *others, *axes), *(x.shape[k] for k in others), size))


@aten("amax.default", "max.default")
def greatest(x: Var, dim: Any = None, keepdim: bool = False) -> Var:
    """Maximum; equal elements share the gradient."""
    axes = axes_of(x, dim)
    return with_reduced_axes(over_one_axis(x, axes, ops.max), tuple(sorted(axes)), keepdim)


@aten("amin.default", "min.default")
def least(x: Var, dim: Any = None, keepdim: bool = False) -> Var:
    """Minimum; equal elements share the gradient."""
    axes = axes_of(x, dim)
    return with_reduced_axes(over_one_axis(x, axes, ops.min), tuple(sorted(axes)), keepdim)


@aten("argmax.default")
def place_of_greatest(x: Var, dim: int | None = None, keepdim: bool = False) -> Var:
    """Return the index of the greatest element: the first of several."""
    axes = axes_of(x, dim)
    return with_reduced_axes(over_one_axis(x, axes, ops.argmax), axes, keepdim)


@aten("argmin.default")
def place_of_least(x: Var, dim: int | None = None, keepdim: bool = False) -> Var:
    """Return the index of the least element: the first of several."""
    axes = axes_of(x, dim)
    return with_reduced_axes(over_one_axis(x, axes, ops.argmin), axes, keepdim)


@aten("topk.default")
@takes_scalars()
def top_k(x: Var, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Return the k greatest, or least, elements along an axis in order, and their indices."""
    return ops.top_k(x, k, dim, largest)


@aten("any.default", "any.dim", "any.dims")
def some(x: Var, dim: Any = None, keepdim: bool = False) -> Var:
    """Return whether any element is not 0."""
    axes = axes_of(x, dim)
    return with_reduced_axes(ops.any(truth(x), axes), axes, keepdim)


@aten("all.default", "all.dim", "all.dims")
def every(x: Var, dim: Any = None, keepdim: bool = False) -> Var:
    """Return whether no element is 0."""
    axes = axes_of(x, dim)
    return with_reduced_axes(ops.all(truth(x), axes), axes, keepdim)


@aten("cumsum.default")
def cumsum(x: Var, dim: int, dtype: Any = None) -> Var:
    """Running sums along an axis; of integers and booleans in int64."""
    wide = x.dtype if x.dtype.is_floating else Dtype.int64
    x = ops.cast(x, wide if dtype is None else dtype_from(dtype))
    return ops.cumsum(x, dim) if x.type.rank else x


@aten("logsumexp.default")
def logsumexp(x: Var, dim: Any, keepdim: bool = False) -> Var:
    """Log-sum-exp: ln Σ eˣ."""
    axes = axes_of(x, dim)
    return with_reduced_axes(over_one_axis(as_floating(x), axes, ops.logsumexp), tuple(sorted(axes)), keepdim)


@aten("_softmax.default")
@takes_scalars()
def softmax(x: Var, dim: int, half_to_float: bool = False) -> Var:
    """Softmax: e^xᵢ / Σⱼ e^xⱼ along an axis."""
    return ops.softmax(ops.cast(x, Dtype.float32) if half_to_float else x, dim)


@aten("_safe_softmax.default")
@takes_scalars()
def safe_softmax(x: Var, dim: int, dtype: Any = None) -> Var:
    """Softmax along an axis, and 0 where all elements are -∞."""
    x = x if dtype is None else ops.cast(x, dtype_from(dtype))
    return softmax_of_seen(x, x > -inf, *axes_of(x, dim))


@aten("_log_softmax.default")
@takes_scalars()
def log_softmax(x: Var, dim: int, half_to_float: bool = False) -> Var:
    """Log-softmax: xᵢ - ln Σⱼ e^xⱼ along an axis."""
    return ops.log_softmax(ops.cast(x, Dtype.float32) if half_to_float else x, dim)
