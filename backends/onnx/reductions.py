"""Products, sums, extrema, running sums and sorting."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any

from catgrad.dims import Dim, Size, product
from catgrad.ops.contract import Contract
from catgrad.ops.cumulative import CumSum
from catgrad.ops.extrema import Max
from catgrad.ops.reduce import Sum
from catgrad.ops.sort import ArgSort
from catgrad.types import Dtype

from ..python.matmul import MatMul
from .graph import Graph, Value
from .rules import emits, one_operator

MAX_TERMS = 4096
"""The number of terms up to which a sum one after the other is accurate enough."""


@emits("MatMul")
def matrix_product(g: Graph, op: MatMul, x: Value, y: Value) -> str:
    """Matrix product; a vector is a matrix with one row or column.

    ONNX Runtime 1.32 fuses a product of a transposed matrix and a vector to one with wrong elements.
    """
    is_row, is_column = x.type.rank == 1, y.type.rank == 1
    left = g.add("Unsqueeze", x, g.constant([0])) if is_row else x
    right = g.add("Unsqueeze", y, g.constant([1])) if is_column else y
    z = g.add("MatMul", left, right)
    ones = [*([-2] if is_row else []), *([-1] if is_column else [])]
    return g.add("Squeeze", z, g.constant(ones)) if ones else z


@emits("Contract")
def contract(g: Graph, op: Contract, x: Value, y: Value) -> str | Sequence[str]:
    """Sum of products over labelled axes; where one may be empty, of products with all axes.

    ONNX Runtime 1.32 divides by 0 in an Einsum of empty arrays, which ends the process.
    """
    sizes = {
        **dict(zip(op.left, x.type.shape, strict=True)),
        **dict(zip(op.right, y.type.shape, strict=True)),
    }
    if all(isinstance(size, int) and size for size in sizes.values()):
        return g.add("Einsum", x, y, equation=op.subscripts)
    order = (*op.out, *(label for label in sizes if label not in op.out))
    factors = (_aligned(g, x, op.left, order), _aligned(g, y, op.right, order))
    type = x.type.with_shape(tuple(sizes[label] for label in order))
    return sums(
        g, Sum(type.shape, tuple(range(len(op.out), len(order)))), Value(g.add("Mul", *factors), type)
    )


def _aligned(g: Graph, x: Value, labels: Sequence[int], order: Sequence[int]) -> str:
    """Permute the axes of an array to this order of labels, with axes of size 1 for those it lacks."""
    own = [label for label in order if label in labels]
    missing = [k for k, label in enumerate(order) if label not in labels]
    y = g.add("Transpose", x, perm=[labels.index(label) for label in own]) if own else x
    return g.add("Unsqueeze", y, g.constant(missing)) if missing else y


def _reduced(g: Graph, operator: str, x: str, axes: Sequence[int]) -> str:
    return g.add(operator, x, g.constant(list(axes)), keepdims=0)


@emits("Sum")
def sums(g: Graph, op: Sum, x: Value) -> str:
    """Sum over axes: of integers as a product with ones, as ONNX Runtime adds them up in floats.

    Long sums of float32, which it adds up one after the other, are formed in float64.
    """
    if not op.axes:
        return x
    count = product(tuple(x.type.shape[axis] for axis in op.axes))
    if not x.dtype.is_floating:
        return _whole_sum(g, x, op.axes, count)
    if x.dtype is Dtype.float32 and (isinstance(count, Dim) or count > MAX_TERMS):
        return g.cast(_reduced(g, "ReduceSum", g.cast(x, Dtype.float64), op.axes), Dtype.float32)
    return _reduced(g, "ReduceSum", x, op.axes)


def _whole_sum(g: Graph, x: Value, axes: tuple[int, ...], count: Size) -> str:
    kept = [k for k in range(x.type.rank) if k not in axes]
    sizes = [x.type.shape[k] for k in kept]
    rows = g.add("Reshape", g.add("Transpose", x, perm=[*kept, *axes]), g.shape([*sizes, count]), allowzero=1)
    ones = g.add("Expand", g.like(x, 1), g.shape([count, 1]))
    matrix = rows if kept else g.add("Unsqueeze", rows, g.constant([0]))
    return g.add("Reshape", g.add("MatMul", matrix, ones), g.shape(sizes), allowzero=1)


def _is_nan(g: Graph, x: Value, axis: int) -> tuple[str, str]:
    """Mark NaN by 1, and return whether there is one along an axis."""
    marks = g.cast(g.add("IsNaN", x), Dtype.int32)
    return marks, g.cast(_reduced(g, "ReduceMax", marks, [axis]), Dtype.bool)


@emits("Max")
def maxima(g: Graph, op: Max, x: Value) -> str:
    """Greatest element along an axis, NaN if one is: the maximum of ONNX Runtime ignores some."""
    greatest = _reduced(g, "ReduceMax", x, [op.axis])
    if not x.dtype.is_floating:
        return greatest
    return g.add("Where", _is_nan(g, x, op.axis)[1], g.like(x, nan), greatest)


def _place(name: str, operator: str) -> None:
    @emits(name)
    def place(g: Graph, op: Any, x: Value) -> str:
        found = g.add(operator, x, axis=op.axis, keepdims=0)
        if not x.dtype.is_floating:
            return found
        marks, is_nan = _is_nan(g, x, op.axis)
        return g.add("Where", is_nan, g.add("ArgMax", marks, axis=op.axis, keepdims=0), found)


_place("ArgMax", "ArgMax")
_place("ArgMin", "ArgMin")


one_operator(lambda op: {"axis": op.axis}, Softmax="Softmax", LogSoftmax="LogSoftmax")


@emits("CumSum")
def cumulative(g: Graph, op: CumSum, x: Value) -> str:
    """Running sum."""
    return g.add("CumSum", x, g.constant(op.axis), reverse=int(op.backwards))


@emits("ArgSort")
def argsort(g: Graph, op: ArgSort, x: Value) -> str:
    """Indices that sort: of the greatest elements, all; equal ones keep their order."""
    size = g.size(x.type.shape[op.axis])
    outputs = g.several("TopK", 2, x, size, axis=op.axis, largest=int(op.descending), sorted=1)
    return outputs[1]
