"""Types and broadcasting of operands, as in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import prod
from typing import Any

import numpy as np

from catgrad import ops
from catgrad.dims import Dim, Size
from catgrad.errors import DtypeError, ShapeError
from catgrad.frontends.onnx.registry import require
from catgrad.ops.shape import Shape, normalised, shape_text
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype

DTYPES = {
    1: Dtype.float32, 6: Dtype.int32, 7: Dtype.int64, 9: Dtype.bool, 10: Dtype.float16, 11: Dtype.float64,
    12: Dtype.uint32, 2: Dtype.uint8, 3: Dtype.int8, 16: Dtype.bfloat16,
}  # fmt: skip
"""Dtypes by the numbers of TensorProto.DataType."""


MAX_CONSTANT_ELEMENTS = 2**27
"""The maximum size of an array that operators compute from constants at the import."""


def dtype_of(number: int) -> Dtype:
    """Return the dtype of this number in ONNX. Raises: DtypeError if there is none"""
    if number not in DTYPES:
        from onnx import TensorProto

        known = number in TensorProto.DataType.values()
        raise DtypeError(
            f"an array must have one of the dtypes {', '.join(d.name for d in DTYPES.values())}",
            f"one is {TensorProto.DataType.Name(number).lower() if known else f'number {number}'}",
            "convert the model to one of them",
        )
    return DTYPES[number]


def dtype_of_array(array: Array) -> Dtype:
    """Return the dtype of a NumPy array. Raises: DtypeError if there is none"""
    name = "bool" if array.dtype == bool else array.dtype.name
    if name not in Dtype.__members__:
        raise DtypeError(
            f"an array must have one of the dtypes {', '.join(Dtype.__members__)}",
            f"one is {array.dtype}",
            "convert the model to one of them",
        )
    return Dtype[name]


def common_shape(*shapes: Shape) -> Shape:
    """Return the common shape of a broadcast. Raises: ShapeError"""
    columns = zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    result: list[Size] = []
    for column in columns:
        sizes = [size for size in column if size != 1] or [1]
        if any(size != sizes[0] for size in sizes):
            raise ShapeError(
                "operands must have equal sizes, or size 1, along each axis",
                f"their shapes are {', '.join(map(shape_text, shapes))}",
                "give symbolic axes of one size one name, or fix them by `sizes`",
            )
        result.append(sizes[0])
    return tuple(reversed(result))


def together(*operands: Var) -> list[Var]:
    """Broadcast variables to their common shape."""
    shape = common_shape(*(x.shape for x in operands))
    return [ops.broadcast_to(x, shape) for x in operands]


def literal(array: Array) -> Var:
    """Return a constant as a variable of its dtype."""
    return ops.array(array, dtype_of_array(array))


def full(x: Var, value: float) -> Var:
    """Return an array of the type of x, filled with a number."""
    return Constant(x.type, value)()


def along(x: Var, shape: Shape, axis: int) -> Var:
    """Broadcast a vector along one axis of a shape."""
    return ops.broadcast(x, shape, [k for k in range(len(shape)) if k != axis])


def require_constant(sizes: Sequence[Size]) -> None:
    """Raise UnsupportedOp for a constant that is too large to compute with at the import."""
    count = prod(size for size in sizes if isinstance(size, int))
    require(
        count <= MAX_CONSTANT_ELEMENTS,
        f"constants that the import computes must have {MAX_CONSTANT_ELEMENTS:,} elements at most",
        f"one has {count:,}",
        "store it as an initialiser, or compute it from an input",
    )


def axis_of(x: Var, axis: int) -> int:
    """Return an axis counted from the front. Raises: OptionError"""
    return normalised(axis, x.type.rank)[0]


def numbers_in(array: Array) -> tuple[Any, ...]:
    """Return the elements of a constant, which are integers or symbolic sizes."""
    return tuple(n if isinstance(n, Dim) else int(n) for n in np.asarray(array).reshape(-1))


def sizes_array(sizes: Sequence[Size]) -> Array:
    """Return sizes as a constant: of int64, or of objects where one is symbolic."""
    if not any(isinstance(size, Dim) for size in sizes):
        return np.array(sizes, np.int64)
    array = np.empty(len(sizes), object)
    array[:] = sizes
    return array


def fixed(sizes: Sequence[Size], what: str) -> tuple[int, ...]:
    """Return sizes as integers. Raises: ShapeError if one is symbolic"""
    for size in sizes:
        if isinstance(size, Dim):
            raise ShapeError(f"{what} must be a number", f"it is {size}", "fix the axis by `sizes`")
    return tuple(int(size) for size in sizes)
