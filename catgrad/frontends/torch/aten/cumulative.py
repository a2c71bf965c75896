"""Products, and running products, extrema and logarithms of sums."""

from __future__ import annotations

from typing import Any

from catgrad import ops
from catgrad.frontends.torch.aten.operands import as_floating, axes_of, dtype_from
from catgrad.frontends.torch.registry import aten
from catgrad.terms.structural import zeros_like
from catgrad.terms.var import Var
from catgrad.types import Dtype


def summed(x: Var, dtype: Any = None) -> Var:
    """Cast x as sums and products do: integers and booleans to int64, unless a dtype is given."""
    wide = x.dtype if x.dtype.is_floating else Dtype.int64
    return ops.cast(x, wide if dtype is None else dtype_from(dtype))


@aten("prod.default")
def product(x: Var, dtype: Any = None) -> Any:
    """Product of all elements; of integers and booleans in int64."""
    return ops.prod(summed(x, dtype))


@aten("prod.dim_int")
def product_along(x: Var, dim: int, keepdim: bool = False, dtype: Any = None) -> Var:
    """Product along an axis; of integers and booleans in int64."""
    axes = axes_of(x, dim)
    y = ops.prod(summed(x, dtype), axes if x.type.rank else None)
    return ops.expand_dims(y, axes) if keepdim and x.type.rank else y


@aten("cumprod.default")
def cumprod(x: Var, dim: int, dtype: Any = None) -> Var:
    """Running products along an axis; of integers and booleans in int64."""
    x = summed(x, dtype)
    return ops.cumprod(x, dim) if x.type.rank else x


@aten("cummax.default")
def cummax(x: Var, dim: int) -> tuple[Any, Any]:
    """Running maxima along an axis, and their indices: the last of equal elements."""
    return ops.cummax(x, dim) if x.type.rank else (x, ops.cast(zeros_like(x), Dtype.int64))


@aten("cummin.default")
def cummin(x: Var, dim: int) -> tuple[Any, Any]:
    """Running minima along an axis, and their indices: the last of equal elements."""
    return ops.cummin(x, dim) if x.type.rank else (x, ops.cast(zeros_like(x), Dtype.int64))


@aten("logcumsumexp.default")
def logcumsumexp(x: Var, dim: int) -> Var:
    """Logarithms of running sums of exponentials along an axis."""
    return ops.logcumsumexp(as_floating(x), dim) if x.type.rank else x
