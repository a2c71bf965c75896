"""Variances, norms, extrema together, and sums without NaN."""

from __future__ import annotations

from math import inf, prod
from typing import Any

from catgrad import ops
from catgrad.dims import Dim, Size
from catgrad.frontends.torch.aten.comparisons import truth
from catgrad.frontends.torch.aten.operands import at, axes_of, dtype_from
from catgrad.frontends.torch.aten.reductions import greatest, least, total, with_reduced_axes
from catgrad.frontends.torch.registry import aten
from catgrad.ops.power import root
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Dtype


@aten("var.correction")
def variance(x: Var, dim: Any = None, correction: float | None = None, keepdim: bool = False) -> Any:
    """Variance: Σ (x - mean x)² / (n - correction), with the correction 1 by default."""
    return mean_and_variance(x, dim, correction, keepdim)[0]


@aten("var_mean.correction")
def mean_and_variance(
    x: Var, dim: Any = None, correction: float | None = None, keepdim: bool = False
) -> tuple[Any, Any]:
    """Variance and mean."""
    axes = axes_of(x, dim)
    count = prod(x.shape[axis] for axis in axes)
    mean = ops.mean(x, axes)
    squares = ops.sum(ops.square(x - ops.broadcast(mean, x.shape, axes)), axes)
    y = squares / _divisor(count, 1 if correction is None else correction, squares)
    return with_reduced_axes(y, axes, keepdim), with_reduced_axes(mean, axes, keepdim)


def _divisor(count: Size, correction: float, x: Var) -> Any:
    """Return max(0, count - correction): a number, or of the type of x where the count is symbolic."""
    if not isinstance(count, Dim):
        return max(0, count - correction)
    return ops.maximum(at(count, x.shape, x.dtype) - correction, zeros_like(x))


@aten("std.correction")
def deviation(x: Var, dim: Any = None, correction: float | None = None, keepdim: bool = False) -> Var:
    """Standard deviation, with gradient 0 at 0."""
    return root(variance(x, dim, correction, keepdim))


@aten("std_mean.correction")
def mean_and_deviation(
    x: Var, dim: Any = None, correction: float | None = None, keepdim: bool = False
) -> tuple[Any, Any]:
    """Standard deviation and mean."""
    y, mean = mean_and_variance(x, dim, correction, keepdim)
    return root(y), mean


@aten("var.default", "var.dim")
def unbiased_variance(x: Var, dim: Any = None, unbiased: bool = True, keepdim: bool = False) -> Any:
    """Variance, unbiased or of the whole population."""
    return variance(x, *_dims(dim, unbiased), keepdim)


@aten("std.default", "std.dim")
def unbiased_deviation(x: Var, dim: Any = None, unbiased: bool = True, keepdim: bool = False) -> Any:
    """Standard deviation, unbiased or of the whole population."""
    return deviation(x, *_dims(dim, unbiased), keepdim)


@aten("var_mean.default", "var_mean.dim")
def unbiased_variance_and_mean(
    x: Var, dim: Any = None, unbiased: bool = True, keepdim: bool = False
) -> tuple[Any, Any]:
    """Variance, unbiased or of the whole population, and mean."""
    y, mean = mean_and_variance(x, *_dims(dim, unbiased), keepdim)
    return y, mean


@aten("std_mean.default", "std_mean.dim")
def unbiased_deviation_and_mean(
    x: Var, dim: Any = None, unbiased: bool = True, keepdim: bool = False
) -> tuple[Any, Any]:
    """Standard deviation, unbiased or of the whole population, and mean."""
    y, mean = mean_and_deviation(x, *_dims(dim, unbiased), keepdim)
    return y, mean


def _dims(dim: Any, unbiased: bool) -> tuple[Any, int]:
    """Return axes and correction; without axes the second argument is `unbiased`."""
    return (None, int(dim)) if isinstance(dim, bool) else (dim, int(unbiased))


@aten("linalg_vector_norm.default")
def norm(x: Var, ord: float = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Vector norm: (Σ |x|ᵖ)^(1/p), the extremum of |x| for ±∞, the count of x ≠ 0 for 0; gradient 0 at 0."""
    axes = axes_of(x, dim)
    x = x if dtype is None else ops.cast(x, dtype_from(dtype))
    if ord in (inf, -inf):
        return (greatest if ord > 0 else least)(ops.absolute(x), list(axes), keepdim)
    if ord == 0:
        y = ops.sum(ops.cast(x != 0, x.dtype), axes)
    elif ord == 1:
        y = ops.sum(ops.absolute(x), axes)
    elif ord == 2:
        y = root(ops.sum(ops.square(x), axes))
    else:
        y = _power_norm(x, ord, axes)
    return with_reduced_axes(y, axes, keepdim)


def _power_norm(x: Var, p: float, axes: tuple[int, ...]) -> Var:
    """Return (Σ |x|ᵖ)^(1/p), with gradient 0 where x is 0."""
    zero, one = zeros_like(x), Constant(x.type, 1)()
    powers = ops.select(x == 0, zero if p > 0 else one * inf, ops.absolute(ops.select(x == 0, one, x)) ** p)
    return root(ops.sum(powers, axes), p)


@aten("norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim_dtype")
def old_norm(x: Var, p: float | None = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Vector norm, of order 2 by default."""
    return norm(x, 2 if p is None else p, dim, keepdim, dtype)


@aten("count_nonzero.default", "count_nonzero.dim_IntList")
def count_nonzero(x: Var, dim: Any = None) -> Var:
    """Count the elements that are not 0."""
    return ops.sum(ops.cast(truth(x), Dtype.int64), axes_of(x, dim))


@aten("aminmax.default")
def extrema(x: Var, dim: int | None = None, keepdim: bool = False) -> tuple[Any, Any]:
    """Minimum and maximum; equal elements share the gradient."""
    return least(x, dim, keepdim), greatest(x, dim, keepdim)


@aten("nansum.default")
def sum_of_numbers(x: Var, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Sum of the elements that are not NaN."""
    x = ops.select(x != x, zeros_like(x), x) if x.dtype.is_floating else x
    return total(x, dim, keepdim, dtype)
