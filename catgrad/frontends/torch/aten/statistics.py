"""Variances, norms, extrema together, and sums without NaN."""

from __future__ import annotations

from math import inf, prod
from typing import Any

from catgrad import ops
from catgrad.dims import Dim, Size
from catgrad.frontends.torch.aten.comparisons import truth
from catgrad.frontends.torch.aten.operands import Dims, TorchDtype, at, axes_of, dtype_from
from catgrad.frontends.torch.aten.reductions import greatest, least, total, with_reduced_axes
from catgrad.frontends.torch.registry import Meaning, aten
from catgrad.ops.power import root
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Dtype


@aten("var.correction")
def variance(x: Var, dim: Dims = None, correction: float | None = None, keepdim: bool = False) -> Var:
    """Variance: Σ (x - mean x)² / (n - correction), with the correction 1 by default."""
    return mean_and_variance(x, dim, correction, keepdim)[0]


@aten("var_mean.correction")
def mean_and_variance(
    x: Var, dim: Dims = None, correction: float | None = None, keepdim: bool = False
) -> tuple[Var, Var]:
    """Variance and mean."""
    axes = axes_of(x, dim)
    count = prod(x.shape[axis] for axis in axes)
    mean = ops.mean(x, axes)
    squares = ops.sum(ops.square(x - ops.broadcast(mean, x.shape, axes)), axes)
    y = squares / _divisor(count, 1 if correction is None else correction, squares)
    return with_reduced_axes(y, axes, keepdim), with_reduced_axes(mean, axes, keepdim)


def _divisor(count: Size, correction: float, x: Var) -> Var | float:
    """Return max(0, count - correction): a number, or of the type of x where the count is symbolic."""
    if not isinstance(count, Dim):
        return max(0, count - correction)
    return ops.maximum(at(count, x.shape, x.dtype) - correction, zeros_like(x))


@aten("std.correction")
def deviation(x: Var, dim: Dims = None, correction: float | None = None, keepdim: bool = False) -> Var:
    """Standard deviation, with gradient 0 at 0."""
    return root(variance(x, dim, correction, keepdim))


@aten("std_mean.correction")
def mean_and_deviation(
    x: Var, dim: Dims = None, correction: float | None = None, keepdim: bool = False
) -> tuple[Var, Var]:
    """Standard deviation and mean."""
    y, mean = mean_and_variance(x, dim, correction, keepdim)
    return root(y), mean


def _unbiased(name: str, function: Meaning) -> None:
    """Register a statistic, unbiased or of the whole population; without axes, `unbiased` is second."""

    @aten(f"{name}.default", f"{name}.dim")
    def statistic(x: Var, dim: Dims = None, unbiased: bool = True, keepdim: bool = False) -> Any:
        if isinstance(dim, bool):
            return function(x, None, int(dim), keepdim)
        return function(x, dim, int(unbiased), keepdim)


_unbiased("var", variance)
_unbiased("std", deviation)
_unbiased("var_mean", mean_and_variance)
_unbiased("std_mean", mean_and_deviation)


@aten("linalg_vector_norm.default")
def norm(
    x: Var, ord: float = 2, dim: Dims = None, keepdim: bool = False, dtype: TorchDtype | None = None
) -> Var:
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


aten("norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim_dtype")(
    lambda x, p=2, dim=None, keepdim=False, dtype=None: norm(x, 2 if p is None else p, dim, keepdim, dtype)
)


aten("count_nonzero.default", "count_nonzero.dim_IntList")(
    lambda x, dim=None: ops.sum(ops.cast(truth(x), Dtype.int64), axes_of(x, dim))
)


# Equal elements share the gradient.
aten("aminmax.default")(
    lambda x, dim=None, keepdim=False: (least(x, dim, keepdim), greatest(x, dim, keepdim))
)


@aten("nansum.default")
def sum_of_numbers(x: Var, dim: Dims = None, keepdim: bool = False, dtype: TorchDtype | None = None) -> Var:
    """Sum of the elements that are not NaN."""
    x = ops.select(x != x, zeros_like(x), x) if x.dtype.is_floating else x
    return total(x, dim, keepdim, dtype)
