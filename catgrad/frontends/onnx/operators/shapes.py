"""Data movement, and arrays of given shapes."""

from __future__ import annotations

from math import ceil

import numpy as np

from catgrad import ops
from catgrad.dims import Dim, product
from catgrad.frontends.onnx.operators.operands import (
    axis_of,
    common_shape,
    dtype_of,
    dtype_of_array,
    fixed,
    numbers_in,
    require_constant,
    sizes_array,
)
from catgrad.frontends.onnx.registry import onnx, require
from catgrad.frontends.onnx.types import Value
from catgrad.ops.shape import Shape
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType

_SINCE = (13, 14, 19, 21, 23, 24, 25)


onnx("Shape", since=(13, 15, 19, 21, 23, 24, 25))(
    lambda x, *, start=0, end=None: sizes_array(x.shape[slice(start, end)])
)
onnx("Size", since=(13, 19, 21, 23, 24, 25))(lambda x: sizes_array([x.type.size]).reshape(()))


@onnx("Constant", since=_SINCE[:1] + _SINCE[2:])
def constant(**value: object) -> Array:
    """Return a constant."""
    ((kind, array),) = value.items()
    dtypes = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
        "value": None,
    }
    require(kind in dtypes, "a constant must be an array of numbers", f"it is a {kind}")
    return np.asarray(array, dtypes[kind])


@onnx("ConstantOfShape", since=(9, 20, 21, 23, 24, 25), static="shape")
def constant_of_shape(shape: Array, *, value: Array | None = None) -> Value:
    """Return an array of this shape, filled with one number."""
    number = np.zeros(1, np.float32) if value is None else value
    sizes = numbers_in(shape)
    if not any(isinstance(n, Dim) for n in sizes):
        require_constant(sizes)
        return np.full(sizes, number.reshape(-1)[0], number.dtype)
    return Constant(NdArrayType(sizes, dtype_of_array(number)), number.item())()


@onnx("Reshape", since=_SINCE, static="shape")
def reshape(x: Var, shape: Array, *, allowzero: int = 0) -> Var:
    """Reshape; 0 keeps a size unless it is allowed as one, and -1 infers one."""
    sizes = numbers_in(shape)
    if not allowzero:
        sizes = tuple(x.shape[k] if isinstance(n, int) and n == 0 else n for k, n in enumerate(sizes))
    if x.type.size == 0 and any(isinstance(n, int) and n == -1 for n in sizes):
        sizes = tuple(0 if isinstance(n, int) and n == -1 else n for n in sizes)
    return ops.reshape(x, *sizes)


@onnx("Flatten", since=(13, 21, 23, 24, 25))
def flatten(x: Var, *, axis: int = 1) -> Var:
    """Reshape to a matrix, whose rows have the axes from `axis` on."""
    axis = axis + x.type.rank if axis < 0 else axis
    return ops.reshape(x, product(x.shape[:axis]), product(x.shape[axis:]))


onnx("Expand", since=13, static="shape")(
    lambda x, shape: ops.broadcast_to(x, common_shape(x.shape, numbers_in(shape)))
)
onnx("Squeeze", since=(13, 21, 23, 24, 25), static="axes")(
    lambda x, axes=None: ops.squeeze(x, None if axes is None else list(numbers_in(axes)))
)
onnx("Unsqueeze", since=(13, 21, 23, 24, 25), static="axes")(
    lambda x, axes: ops.expand_dims(x, list(numbers_in(axes)))
)


@onnx("Transpose", since=(13, 21, 23, 24, 25))
def transpose(x: Var, *, perm: list[int] | None = None) -> Var:
    """Permute axes; without an order, reverse them."""
    return ops.permute(x, *(reversed(range(x.type.rank)) if perm is None else perm))


onnx("Concat", since=13)(lambda *arrays, axis: ops.concat(arrays, axis_of(arrays[0], axis)))


@onnx("Split", since=(13, 18), static="sizes")
def split(
    x: Var, sizes: Array | None = None, *, axis: int = 0, num_outputs: int | None = None, results: int = 1
) -> tuple[Var, ...]:
    """Split along an axis, into equal parts unless sizes are given; the last may be smaller."""
    axis = axis_of(x, axis)
    if sizes is not None:
        return ops.split(x, numbers_in(sizes), axis)
    (length,), count = fixed(x.shape[axis : axis + 1], "an axis that is split evenly"), num_outputs or results
    part = -(-length // count)
    return ops.split(x, [max(0, min(part, length - k * part)) for k in range(count)], axis)


@onnx("Tile", since=13, static="repeats")
def tile(x: Var, repeats: Array) -> Var:
    """Repeat x along each axis."""
    times = numbers_in(repeats)
    pairs: Shape = tuple(n for pair in zip(times, x.shape, strict=True) for n in pair)
    copies = ops.broadcast(x, pairs, range(0, len(pairs), 2))
    return ops.reshape(copies, *(r * n for r, n in zip(times, x.shape, strict=True)))


@onnx("Range", since=(11, 27), static="start limit delta")
def numbers(start: Array, limit: Array, delta: Array) -> Value:
    """Return the numbers start, start + delta, … before limit."""
    first, last, step = (array.item() for array in (start, limit, delta))
    if isinstance(first, int) and first == 0 and isinstance(last, Dim) and step == 1:
        return ops.iota(last, Dtype.int64)
    require(
        not any(isinstance(n, Dim) for n in (first, last, step)),
        "a range of a symbolic size must be 0, 1, … in steps of 1",
        f"it goes from {first} to {last} in steps of {step}",
    )
    require_constant([max(0, ceil((last - first) / step))])
    return np.arange(first, last, step, start.dtype)


@onnx("EyeLike", since=(9, 22))
def eye_like(x: Var, *, dtype: int | None = None, k: int = 0) -> Var:
    """Return a matrix with ones on a diagonal."""
    chosen = x.dtype if dtype is None else dtype_of(dtype)
    rows, columns = fixed(x.shape, "the size of an identity")
    require_constant([rows, columns])
    return ops.array(np.eye(rows, columns, k), chosen)


@onnx("Trilu", since=14, static="k")
def triangle(x: Var, k: Array | None = None, *, upper: int = 1) -> Var:
    """Return the part above or below a diagonal, zeros elsewhere."""
    offset = 0 if k is None else int(k.item())
    return (ops.upper if upper else ops.lower)(x, offset)


@onnx("OneHot", since=(11, 28), static="depth")
def one_hot(indices: Var, depth: Array, values: Var, *, axis: int = -1) -> Var:
    """Return the second of two values at each index along a new axis, the first elsewhere."""
    (count,) = numbers_in(depth)
    axis = axis % (indices.type.rank + 1)
    index = ops.cast(indices, Dtype.int64)
    index = ops.select(index < 0, index + count, index)
    wide = (*index.shape[:axis], count, *index.shape[axis:])
    others = [k for k in range(len(wide)) if k != axis]
    is_hot = ops.broadcast(index, wide, [axis]) == ops.broadcast(ops.iota(count), wide, others)
    off, on = (ops.broadcast(ops.reshape(part), wide) for part in ops.split(values, [1, 1]))
    return ops.select(is_hot, on, off)


@onnx("DepthToSpace", since=(13, 28))
def depth_to_space(x: Var, *, blocksize: int, mode: str = "DCR") -> Var:
    """Move blocks of channels to the two spatial axes."""
    n, c, h, w = x.shape
    b, depth = blocksize, c // blocksize**2
    if mode == "DCR":
        y = ops.permute(ops.reshape(x, n, b, b, depth, h, w), 0, 3, 4, 1, 5, 2)
    else:
        y = ops.permute(ops.reshape(x, n, depth, b, b, h, w), 0, 1, 4, 2, 5, 3)
    return ops.reshape(y, n, depth, h * b, w * b)


@onnx("SpaceToDepth", since=(13, 28))
def space_to_depth(x: Var, *, blocksize: int, mode: str = "DCR") -> Var:
    """Move blocks of the two spatial axes to channels."""
    n, c, h, w = x.shape
    b = blocksize
    y = ops.reshape(x, n, c, h // b, b, w // b, b)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return ops.reshape(ops.permute(y, *order), n, c * b * b, h // b, w // b)
