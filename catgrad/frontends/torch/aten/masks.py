"""Positions by masks and values: nonzero_static, isin, take, and views of an array's storage."""

from __future__ import annotations

from math import prod
from typing import Any

from catgrad import ops
from catgrad.frontends.torch.aten.comparisons import truth
from catgrad.frontends.torch.aten.indexing import from_start
from catgrad.frontends.torch.aten.operands import Operand, together
from catgrad.frontends.torch.registry import aten
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType


@aten("nonzero_static.default")
def positions(x: Any, size: int, fill_value: int = -1) -> Var:
    """Return the indices of the first elements that are not 0, then rows of one number."""
    holds = ops.reshape(truth(x), -1)
    count = prod(x.shape)
    order = ops.argsort(ops.cast(~holds, Dtype.int32), 0)
    kept = min(size, count)
    flat = ops.slice(order, [0], [kept])
    columns = []
    for axis in range(x.type.rank):
        inner = Constant(flat.type, prod(x.shape[axis + 1 :]))()
        columns.append(ops.remainder(ops.floor_divide(flat, inner), Constant(flat.type, x.shape[axis])()))
    index = ops.stack(columns, 1)
    found = ops.gather(ops.cast(holds, Dtype.int32), flat) > 0
    fill = Constant(index.type, fill_value)()
    rows = ops.select(ops.broadcast(found, index.shape, [1]), index, fill)
    if size == kept:
        return rows
    return ops.concat([rows, Constant(NdArrayType((size - kept, x.type.rank), Dtype.int64), fill_value)()])


@aten("isin.Tensor_Tensor", "isin.Tensor_Scalar", "isin.Scalar_Tensor")
def is_in(elements: Operand, tests: Operand, assume_unique: bool = False, invert: bool = False) -> Var:
    """Test whether elements are among others."""
    shape = elements.shape if isinstance(elements, Var) else ()
    x, y = (ops.reshape(v, -1) if isinstance(v, Var) else v for v in (elements, tests))
    x = ops.expand_dims(x, 1) if isinstance(x, Var) else x
    x, y = together(x, y)
    table = ops.reshape(x == y, prod(shape), -1)
    found = ops.reshape(ops.any(table, 1), *shape)
    return ~found if invert else found


@aten("take.default")
def take(x: Var, index: Var) -> Var:
    """Take elements by their number, row by row."""
    return ops.gather(ops.reshape(x, -1), from_start(index, prod(x.shape)))


@aten("as_strided.default", reads_storage=True)
def as_strided(x: Var, size: list[int], stride: list[int], storage_offset: int | None = None) -> Var:
    """Read the elements of x, row by row, at regular distances along each axis."""
    flat, start = ops.reshape(x, -1), storage_offset or 0
    row_major = tuple(prod(size[axis + 1 :]) for axis in range(len(size)))
    if tuple(stride) == row_major and start == 0 and prod(size) == prod(x.shape):
        return ops.reshape(flat, *size)
    place = Constant(NdArrayType(tuple(size), Dtype.int64), start)()
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        others = [k for k in range(len(size)) if k != axis]
        place = place + ops.broadcast(ops.iota(count) * step, tuple(size), others)
    return ops.gather(flat, place)


@aten("embedding_dense_backward.default")
def embedding_gradient(
    cotangent: Var, index: Var, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Var:
    """Sum of the rows of each index, without `padding_idx`; or their mean."""
    chosen = ops.broadcast(index != padding_idx, cotangent.shape, [cotangent.type.rank - 1])
    rows = ops.select(chosen, cotangent, zeros_like(cotangent))
    total = ops.scatter_add(rows, index, num_weights)
    if not scale_grad_by_freq:
        return total
    ones = Constant(cotangent.type.with_shape(index.shape), 1)()
    count = ops.scatter_add(ones, index, num_weights)
    least = ops.select(count > 0, count, Constant(count.type, 1)())
    return total / ops.broadcast(least, total.shape, [1])
