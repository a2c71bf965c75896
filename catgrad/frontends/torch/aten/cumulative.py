"""Products, and running sums, products, extrema and logarithms of sums."""

from __future__ import annotations

from collections.abc import Callable

from catgrad import ops
from catgrad.frontends.torch.aten.operands import TorchDtype, as_floating, axes_of, summed
from catgrad.frontends.torch.registry import aten
from catgrad.terms.structural import zeros_like
from catgrad.terms.var import Var
from catgrad.types import Dtype

aten("prod.default")(lambda x, dtype=None: ops.prod(summed(x, dtype)))


@aten("prod.dim_int")
def product_along(x: Var, dim: int, keepdim: bool = False, dtype: TorchDtype | None = None) -> Var:
    """Product along an axis; of integers and booleans in int64."""
    axes = axes_of(x, dim)
    y = ops.prod(summed(x, dtype), axes if x.type.rank else None)
    return ops.expand_dims(y, axes) if keepdim and x.type.rank else y


def _running(name: str, function: Callable[[Var, int], Var]) -> None:
    """Register running sums or products along an axis; of integers and booleans in int64."""

    @aten(f"{name}.default")
    def running(x: Var, dim: int, dtype: TorchDtype | None = None) -> Var:
        x = summed(x, dtype)
        return function(x, dim) if x.type.rank else x


_running("cumsum", ops.cumsum)
_running("cumprod", ops.cumprod)


def _extrema(name: str, function: Callable[[Var, int], tuple[Var, Var]]) -> None:
    """Register running extrema along an axis, and their indices: the last of equal elements."""

    @aten(f"{name}.default")
    def running(x: Var, dim: int) -> tuple[Var, Var]:
        return function(x, dim) if x.type.rank else (x, ops.cast(zeros_like(x), Dtype.int64))


_extrema("cummax", ops.cummax)
_extrema("cummin", ops.cummin)


@aten("logcumsumexp.default")
def logcumsumexp(x: Var, dim: int) -> Var:
    """Logarithms of running sums of exponentials along an axis."""
    return ops.logcumsumexp(as_floating(x), dim) if x.type.rank else x
