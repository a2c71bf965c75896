"""Reductions: sums, means, extrema, quantifiers, softmax."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod

from catgrad import ops
from catgrad.frontends.torch.aten.comparisons import truth
from catgrad.frontends.torch.aten.operands import Dims, TorchDtype, as_floating, axes_of, dtype_from, summed
from catgrad.frontends.torch.aten.scalars import takes_scalars
from catgrad.frontends.torch.registry import aten
from catgrad.ops.softmax import softmax_of_seen
from catgrad.terms.var import Var
from catgrad.types import Dtype


def with_reduced_axes(y: Var, axes: tuple[int, ...], keepdim: bool) -> Var:
    """Restore reduced axes with size 1 if `keepdim`."""
    return ops.expand_dims(y, axes) if keepdim and axes else y


@aten("sum.dim_IntList", "sum.default")
def total(x: Var, dim: Dims = None, keepdim: bool = False, dtype: TorchDtype | None = None) -> Var:
    """Sum: Σ x; of integers and booleans in int64."""
    axes = axes_of(x, dim)
    return with_reduced_axes(ops.sum(summed(x, dtype), axes), axes, keepdim)


@aten("mean.dim", "mean.default")
def mean(x: Var, dim: Dims = None, keepdim: bool = False, dtype: TorchDtype | None = None) -> Var:
    """Mean: Σ x / n."""
    axes = axes_of(x, dim)
    y = ops.mean(x if dtype is None else ops.cast(x, dtype_from(dtype)), axes)
    return with_reduced_axes(y, axes, keepdim)


def _over_axes(*overloads: str, reduce: Callable[[Var, tuple[int, ...]], Var]) -> Callable[..., Var]:
    """Register a reduction over any axes."""

    @aten(*overloads)
    def reduced(x: Var, dim: Dims = None, keepdim: bool = False) -> Var:
        axes = axes_of(x, dim)
        return with_reduced_axes(reduce(x, axes), tuple(sorted(axes)), keepdim)

    return reduced


def _as_one(reduce: Callable[[Var], Var]) -> Callable[[Var, tuple[int, ...]], Var]:
    """Reduce several axes as one: they are merged to the last axis."""

    def reduced(x: Var, axes: tuple[int, ...]) -> Var:
        others = [axis for axis in range(x.type.rank) if axis not in axes]
        last = ops.permute(x, *others, *axes)
        if len(axes) == 1:
            return reduce(last)
        size = prod(x.shape[axis] for axis in axes)
        return reduce(ops.reshape(last, *(x.shape[k] for k in others), size))

    return reduced


# Equal elements share the gradient; of several places, the first is returned.
greatest = _over_axes("amax.default", "max.default", reduce=_as_one(ops.max))
least = _over_axes("amin.default", "min.default", reduce=_as_one(ops.min))
_over_axes("argmax.default", reduce=_as_one(ops.argmax))
_over_axes("argmin.default", reduce=_as_one(ops.argmin))
_over_axes("logsumexp.default", reduce=_as_one(lambda x: ops.logsumexp(as_floating(x))))
_over_axes("any.default", "any.dim", "any.dims", reduce=lambda x, axes: ops.any(truth(x), axes))
_over_axes("all.default", "all.dim", "all.dims", reduce=lambda x, axes: ops.all(truth(x), axes))


@aten("topk.default")
@takes_scalars()
def top_k(x: Var, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Var, Var]:
    """Return the k greatest, or least, elements along an axis in order, and their indices."""
    return ops.top_k(x, k, dim, largest)


@aten("_softmax.default")
@takes_scalars()
def softmax(x: Var, dim: int, half_to_float: bool = False) -> Var:
    """Softmax: e^xᵢ / Σⱼ e^xⱼ along an axis."""
    return ops.softmax(ops.cast(x, Dtype.float32) if half_to_float else x, dim)


@aten("_safe_softmax.default")
@takes_scalars()
def safe_softmax(x: Var, dim: int, dtype: TorchDtype | None = None) -> Var:
    """Softmax along an axis, and 0 where all elements are -∞."""
    x = x if dtype is None else ops.cast(x, dtype_from(dtype))
    return softmax_of_seen(x, x > -inf, *axes_of(x, dim))


@aten("_log_softmax.default")
@takes_scalars()
def log_softmax(x: Var, dim: int, half_to_float: bool = False) -> Var:
    """Log-softmax: xᵢ - ln Σⱼ e^xⱼ along an axis."""
    return ops.log_softmax(ops.cast(x, Dtype.float32) if half_to_float else x, dim)
