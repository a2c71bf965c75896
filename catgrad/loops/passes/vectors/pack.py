"""Packed operands: matrix products read a matrix of an argument from a copy that is made before the call."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from catgrad.dims import Size, product
from catgrad.loops.ir.index import nested_axes
from catgrad.loops.ir.nest import Item, Kernel, Loop, MatMul, own_variables
from catgrad.loops.ir.scalar import Buffer, Load, Space
from catgrad.loops.ir.steps import Lowered
from catgrad.types import NdArrayType


@dataclass(frozen=True)
class Matrix:
    """A matrix in an array: its first element, sizes and strides."""

    array: Buffer
    first: Size
    rows: Size
    columns: Size
    row_stride: Size
    column_stride: Size


def pack(lowered: Lowered, arguments: Collection[Buffer]) -> tuple[Lowered, dict[Matrix, Buffer]]:
    """Let products whose right operands are matrices of these arguments read them packed, from new arguments.

    Returns the function and, for each matrix, the argument that has it packed: its layout is the machine's.
    """
    packed: dict[Matrix, Buffer] = {}

    def changed(items: Sequence[Item]) -> list[Item]:
        return list(map(change, items))

    def change(item: Item) -> Item:
        if isinstance(item, Loop):
            return replace(item, body=changed(item.body))
        if not isinstance(item, MatMul) or (item.right.dtype.itemsize == 1 and _is_row(item)):
            return item  # one row of bytes reads the matrix in place
        matrix = _right(item, arguments)
        if matrix is None:
            return item
        fresh = Buffer(matrix.array.name, NdArrayType((), item.right.dtype), Space.ARGUMENT)
        return replace(item, packed=Load(packed.setdefault(matrix, fresh), ()))

    return lowered.map_kernels(lambda kernel: Kernel(changed(kernel.body))), packed


def _is_row(s: MatMul) -> bool:
    """Tell whether the left operand of a product is one row."""
    return product(tuple(v.extent for v in s.rows)) == 1


def _right(s: MatMul, arguments: Collection[Buffer]) -> Matrix | None:
    """Describe the right operand of a product without nested axes, if it is one matrix of an argument."""
    array, place = s.right.buffer, s.right.buffer.flat(s.right.indices)
    left = s.left.buffer.flat(s.left.indices)
    depth, columns = nested_axes(place, s.depth), nested_axes(place, s.columns)
    every = (depth, columns, *(nested_axes(left, group) for group in (s.rows, s.depth)))
    moves = any(atom not in own_variables(s) for atom, _ in place.terms)
    if array not in arguments or moves or any(len(axes) != 1 for axes in every):
        return None
    [(rows, row_stride)], [(width, column_stride)] = depth, columns
    return Matrix(array, place.constant, rows, width, row_stride, column_stride)
