"""Reductions: sums, means, extrema, quantifiers, softmax."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from catgrad import ops
from catgrad.frontends.torch.comparisons import truth
from catgrad.frontends.torch.operands import as_floating, axes_of, dtype_from
from catgrad.frontends.torch.registry import aten, require
from catgrad.terms.structural import Constant
from catgrad.types import Dtype


def _with_reduced_axes(y: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    """Restore reduced axes with size 1 if `keepdim`."""
    return ops.expand_dims(y, axes) if keepdim and axes else y


@aten("sum.dim_IntList", "sum.default")
def total(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Sum: Σ x; of integers and booleans in int64."""
    wide = x.dtype if x.dtype.is_floating else Dtype.int64
    axes = axes_of(x, dim)
    y = ops.sum(ops.cast(x, wide if dtype is None else dtype_from(dtype)), axes)
    return _with_reduced_axes(y, axes, keepdim)


@aten("mean.dim", "mean.default")
def mean(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Mean: Σ x / n."""
    axes = axes_of(x, dim)
    y = ops.mean(x if dtype is None else ops.cast(x, dtype_from(dtype)), axes)
    return _with_reduced_axes(y, axes, keepdim)


@aten("var.correction")
def variance(x: Any, dim: Any = None, correction: float = 1, keepdim: bool = False) -> Any:
    """Variance: Σ (x - mean x)² / (n - correction)."""
    axes = axes_of(x, dim)
    count = prod(x.shape[axis] for axis in axes)
    centred = x - ops.broadcast(ops.mean(x, axes), x.shape, axes)
    y = ops.sum(ops.square(centred), axes) / max(0, count - correction)
    return _with_reduced_axes(y, axes, keepdim)


def _over_one_axis(x: Any, axes: tuple[int, ...], reduce: Callable[[Any], Any]) -> Any:
    """Reduce several axes as one: they are merged to the last axis."""
    others = [axis for axis in range(x.type.rank) if axis not in axes]
    if len(axes) == 1:
        return reduce(ops.permute(x, *others, *axes))
    size = prod(x.shape[axis] for axis in axes)
    return reduce(ops.reshape(ops.permute(x, *others, *axes), *(x.shape[k] for k in others), size))


@aten("amax.default", "max.default")
def greatest(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Maximum; equal elements share the gradient."""
    axes = axes_of(x, dim)
    return _with_reduced_axes(_over_one_axis(x, axes, ops.max), tuple(sorted(axes)), keepdim)


@aten("amin.default", "min.default")
def least(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Minimum; equal elements share the gradient."""
    axes = axes_of(x, dim)
    return _with_reduced_axes(_over_one_axis(x, axes, ops.min), tuple(sorted(axes)), keepdim)


@aten("argmax.default")
def place_of_greatest(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the index of the greatest element: the first of several."""
    axes = axes_of(x, dim)
    return _with_reduced_axes(_over_one_axis(x, axes, ops.argmax), axes, keepdim)


@aten("argmin.default")
def place_of_least(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the index of the least element: the first of several."""
    axes = axes_of(x, dim)
    return _with_reduced_axes(_over_one_axis(x, axes, ops.argmin), axes, keepdim)


@aten("topk.default")
def top_k(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Return the k greatest, or least, elements along an axis in order, and their indices."""
    return ops.top_k(x, k, dim, largest)


@aten("any.default", "any.dim", "any.dims")
def some(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return whether any element is not 0."""
    axes = axes_of(x, dim)
    return _with_reduced_axes(ops.any(truth(x), axes), axes, keepdim)


@aten("all.default", "all.dim", "all.dims")
def every(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Return whether no element is 0."""
    axes = axes_of(x, dim)
    return _with_reduced_axes(ops.all(truth(x), axes), axes, keepdim)


@aten("cumsum.default")
def cumsum(x: Any, dim: int, dtype: Any = None) -> Any:
    """Running sums along an axis; of integers and booleans in int64."""
    wide = x.dtype if x.dtype.is_floating else Dtype.int64
    return ops.cumsum(ops.cast(x, wide if dtype is None else dtype_from(dtype)), dim)


@aten("logsumexp.default")
def logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    """Log-sum-exp: ln Σ eˣ."""
    axes = axes_of(x, dim)
    return _with_reduced_axes(
        _over_one_axis(as_floating(x), axes, ops.logsumexp), tuple(sorted(axes)), keepdim
    )


@aten("linalg_vector_norm.default")
def norm(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Vector norm: √Σ x², with gradient 0 at 0; or Σ |x| for ord = 1."""
    require(ord in (1, 2), "a norm must be of order 1 or 2", f"it is {ord}")
    axes = axes_of(x, dim)
    x = x if dtype is None else ops.cast(x, dtype_from(dtype))
    if ord == 1:
        return _with_reduced_axes(ops.sum(ops.absolute(x), axes), axes, keepdim)
    y = ops.sum(ops.square(x), axes)
    zero, one = Constant(y.type, 0)(), Constant(y.type, 1)()
    return _with_reduced_axes(ops.select(y == 0, zero, ops.sqrt(ops.select(y == 0, one, y))), axes, keepdim)


@aten("_softmax.default")
def softmax(x: Any, dim: int, half_to_float: bool = False) -> Any:
    """Softmax: e^xᵢ / Σⱼ e^xⱼ along an axis."""
    return ops.softmax(ops.cast(x, Dtype.float32) if half_to_float else x, dim)


@aten("_log_softmax.default")
def log_softmax(x: Any, dim: int, half_to_float: bool = False) -> Any:
    """Log-softmax: xᵢ - ln Σⱼ e^xⱼ along an axis."""
    return ops.log_softmax(ops.cast(x, Dtype.float32) if half_to_float else x, dim)
