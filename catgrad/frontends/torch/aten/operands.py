"""Broadcasting and type promotion of operands, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from catgrad import ops
from catgrad.dims import Dim, Size
from catgrad.errors import DtypeError
from catgrad.frontends.torch.aten.short_integers import LEAST, stored_dtype
from catgrad.frontends.torch.registry import aten
from catgrad.frontends.torch.types import Tensor
from catgrad.ops.shape import Shape
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

if TYPE_CHECKING:
    import torch

F = TypeVar("F", bound=Callable[[Var, Var], Any])

TorchDtype: TypeAlias = "torch.dtype"

Dims: TypeAlias = int | Sequence[int] | None
"""Axes among the arguments of an operation: one, several, or all for None."""

Operand: TypeAlias = Var | float | Dim
"""An operand that is broadcast and cast to the type of the others: an array, a number or a size."""


def dtype_from(torch_dtype: TorchDtype) -> Dtype:
    """Return the dtype to compute in: that of this name, int32 for short integers. Raises: DtypeError."""
    name = str(torch_dtype).removeprefix("torch.")
    if name in LEAST:
        return Dtype.int32
    if name not in Dtype.__members__:
        raise DtypeError(
            f"a tensor must have one of the dtypes {', '.join(Dtype.__members__)}",
            f"one is {name}",
            "cast it with .to(...)",
        )
    return Dtype[name]


def type_of(tensor: Tensor, size: Callable[[Any], Size] = int) -> NdArrayType:
    """Return the type of a tensor of PyTorch, real or fake; `size` converts symbolic sizes."""
    return NdArrayType(tuple(map(size, tensor.shape)), _stored(tensor.dtype))


def type_of_parts(tensor: Tensor, size: Callable[[Any], Size] = int) -> NdArrayType:
    """Return the type of a tensor, or of the real and the imaginary part of a complex one."""
    return NdArrayType(tuple(map(size, tensor.shape)), _stored(tensor.dtype.to_real()))


def _stored(torch_dtype: TorchDtype) -> Dtype:
    name = str(torch_dtype).removeprefix("torch.")
    return stored_dtype(name) if name in LEAST else dtype_from(torch_dtype)


def default_float() -> Dtype:
    """Return the dtype to which PyTorch promotes integers for floating-point functions."""
    import torch

    return dtype_from(torch.get_default_dtype())


def promoted(x: Operand, y: Operand) -> Dtype:
    """Return the promoted dtype of two operands, either of which may be a number."""
    import torch

    if isinstance(x, Var) and isinstance(y, Var) and x.dtype is y.dtype:
        return x.dtype

    def stand_in(operand: Operand) -> Tensor | float:
        if isinstance(operand, Dim):
            return 2  # a whole number, as any other size
        if not isinstance(operand, Var):
            return operand
        # Promotion depends on whether there are axes, not on their sizes.
        return torch.empty((1,) * operand.type.rank, dtype=getattr(torch, operand.dtype.name), device="meta")

    return dtype_from(torch.result_type(stand_in(x), stand_in(y)))


def common_dtype(arrays: Sequence[Var]) -> Dtype:
    """Return the promoted dtype of several arrays of one rank."""
    import torch

    if len({x.dtype for x in arrays}) == 1:
        return arrays[0].dtype
    return dtype_from(reduce(torch.promote_types, (getattr(torch, x.dtype.name) for x in arrays)))


def together(x: Operand, y: Operand, dtype: Dtype | None = None) -> tuple[Var, Var]:
    """Convert two operands, either of which may be a number, to their common shape and dtype."""
    common = promoted(x, y) if dtype is None else dtype
    shape = common_shape(*(operand.shape for operand in (x, y) if isinstance(operand, Var)))
    return at(x, shape, common), at(y, shape, common)


def at(x: Operand, shape: Shape, dtype: Dtype) -> Var:
    """Broadcast and cast a variable or a number to this shape and dtype."""
    if isinstance(x, Dim):
        return ops.broadcast(ops.number_of(x, dtype), shape)
    if not isinstance(x, Var):
        return Constant(NdArrayType(shape, dtype), x)()
    return ops.broadcast_to(ops.cast(x, dtype), shape)


def common_shape(*shapes: Shape) -> Shape:
    """Return the common shape of a broadcast, which torch.export has checked."""
    columns = zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    return tuple(reversed([next((size for size in column if size != 1), 1) for column in columns]))


def summed(x: Var, dtype: TorchDtype | None = None) -> Var:
    """Cast x as sums and products do: integers and booleans to int64, unless a dtype is given."""
    wide = x.dtype if x.dtype.is_floating else Dtype.int64
    return ops.cast(x, wide if dtype is None else dtype_from(dtype))


def as_floating(x: Var) -> Var:
    """Cast x to PyTorch's default dtype unless it is floating-point already."""
    return x if x.dtype.is_floating else ops.cast(x, default_float())


def of_floating(functions: Mapping[str, Callable[[Var], Var]]) -> None:
    """Register functions of floating-point numbers by name; they get others as such."""
    for name, function in functions.items():
        aten(f"{name}.default")(lambda x, function=function: function(as_floating(x)))


def floats(x: Operand, y: Operand) -> tuple[Var, Var]:
    """Convert two operands to one shape and a floating-point dtype."""
    dtype = promoted(x, y)
    return together(x, y, dtype if dtype.is_floating else default_float())


def of_two(
    *overloads: str, convert: Callable[[Operand, Operand], tuple[Var, Var]] = together
) -> Callable[[F], F]:
    """Register a function of two operands, either of which may be a number, of one shape and dtype."""

    def register(function: F) -> F:
        aten(*overloads)(lambda x, y: function(*convert(x, y)))
        return function

    return register


def axes_of(x: Var, dims: Dims) -> tuple[int, ...]:
    """Return non-negative axes, in the given order; None or an empty list means all. A scalar has none."""
    if dims is None or dims == [] or not x.type.rank:
        return tuple(range(x.type.rank))
    return tuple(axis % x.type.rank for axis in ([dims] if isinstance(dims, int) else dims))


def moved(x: Var, axis: int, place: int) -> Var:
    """Return x with one axis moved to another place, either of which may count from the end."""
    order = list(range(x.type.rank))
    order.insert(place % len(order), order.pop(axis))
    return ops.permute(x, *order)
