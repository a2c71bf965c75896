"""Creation of arrays, and identities: copies, casts, detach."""

from __future__ import annotations

from math import ceil
from typing import Any

from catgrad import ops
from catgrad.dims import Dim, Size, divided
from catgrad.frontends.torch.aten.operands import TorchDtype, at, default_float, dtype_from
from catgrad.frontends.torch.registry import aten, require
from catgrad.terms.structural import Constant, stop_gradient
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType


def _dtype(dtype: TorchDtype | None, *numbers: float) -> Dtype:
    """Return the requested dtype, or that of the numbers."""
    if dtype is not None:
        return dtype_from(dtype)
    if all(isinstance(number, bool) for number in numbers):
        return Dtype.bool
    return Dtype.int64 if all(isinstance(number, int) for number in numbers) else default_float()


@aten("full.default")
def full(size: list[Size], value: float, dtype: TorchDtype | None = None) -> Var:
    """Fill an array with a number."""
    return Constant(NdArrayType(tuple(size), _dtype(dtype, value)), value)()


@aten("full_like.default", "fill.Scalar")
def full_like(x: Var, value: float, dtype: TorchDtype | None = None) -> Var:
    """Return an array of one number, of the shape of x."""
    return Constant(NdArrayType(x.shape, x.dtype if dtype is None else dtype_from(dtype)), value)()


# Zeros also where PyTorch leaves elements undefined.
aten("zeros_like.default", "empty_like.default")(lambda x, dtype=None: full_like(x, 0, dtype))
aten("ones_like.default")(lambda x, dtype=None: full_like(x, 1, dtype))


@aten("scalar_tensor.default")
def scalar_tensor(value: float, dtype: TorchDtype | None = None) -> Var:
    """Convert a number to a scalar array."""
    return Constant(NdArrayType((), default_float() if dtype is None else dtype_from(dtype)), value)()


@aten("arange.start_step")
def arange(start: Any, end: Any, step: Any = 1, dtype: TorchDtype | None = None) -> Var:
    """Arithmetic sequence: start, start + step, … below end."""
    span = end - start
    steps = divided(span, step) if isinstance(span, Dim) and isinstance(step, int) else None
    require(
        not isinstance(span, Dim) or steps is not None,
        "a sequence of a symbolic length must count in whole steps",
        f"it goes from {start} to {end} by {step}",
        "add to torch.arange(n) and multiply it",
    )
    count = max(0, ceil(span / step)) if steps is None else steps
    numbers = ops.iota(count, _dtype(dtype, *(n for n in (start, end, step) if not isinstance(n, Dim))))
    stretched = numbers if step == 1 else numbers * step
    return stretched if start == 0 else stretched + at(start, numbers.shape, numbers.dtype)


@aten("eye.default", "eye.m")
def eye(n: int, m: int | None = None, dtype: TorchDtype | None = None) -> Var:
    """Identity matrix: 1 on the diagonal, 0 elsewhere."""
    shape = (n, n if m is None else m)
    diagonal = ops.broadcast(ops.iota(n), shape, [1]) == ops.broadcast(ops.iota(shape[1]), shape)
    return ops.cast(diagonal, _dtype(dtype, 1.0))


@aten("one_hot.default")
def one_hot(index: Var, num_classes: int = -1) -> Var:
    """One-hot rows: 1 at the index of each class; all 0 for an index that is not a class."""
    require(
        num_classes > 0,
        "the number of classes must be known",
        "it depends on the largest label",
        "give num_classes",
    )
    shape = (*index.shape, num_classes)
    numbers = ops.broadcast(ops.iota(num_classes), shape)
    return ops.cast(numbers == ops.broadcast(index, shape, [len(shape) - 1]), Dtype.int64)


aten("clone.default", "alias.default")(lambda x: x)
aten("detach.default")(stop_gradient)


@aten("_to_copy.default")
def to(x: Var, dtype: TorchDtype | None = None) -> Var:
    """Cast x to another dtype; a number becomes an array of no axes, as below torch.vmap."""
    if not isinstance(x, Var):
        return at(x, (), dtype_from(dtype))
    return x if dtype is None else ops.cast(x, dtype_from(dtype))


@aten(
    "_assert_scalar.default",
    "sym_constrain_range_for_size.default",
    "sym_constrain_range.default",
    "_assert_tensor_metadata.default",
)
def assumption(*arguments: object, **bounds: object) -> None:
    """Ignore checks of sizes, which the import reads from torch.export's guards, and of types."""
