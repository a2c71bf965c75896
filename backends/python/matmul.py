"""Contractions as matrix products `@`, with transposes where necessary."""

from __future__ import annotations

from dataclasses import dataclass

from catgrad.dims import product
from catgrad.ops.contract import Contract
from catgrad.ops.shape import Permute, Reshape
from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function
from catgrad.terms.op import Op
from catgrad.types import NdArrayType

Axes = tuple[int, ...]


class MatMul(Op, register=False):
    """The product of `@`: (…, m, k) and (k, n), or both with the same leading batch axes."""

    result = "product"


class Transpose(Op, register=False):
    """The transpose of a matrix."""


@dataclass(frozen=True)
class MatmulForms:
    """The pass that prints contractions as `@` where it computes them."""

    name: str = "matmul-forms"

    def apply(self, function: Function) -> Function:
        """Replace each contraction of one axis whose free axes are in order by MatMul."""
        return Rewriter(function).sweep(_spell)


def _spell(rewriter: Rewriter, apply: Apply) -> Values | None:
    op, inputs, outputs = apply
    if isinstance(op, Permute) and op.order == (1, 0):
        return (rewriter.apply_as(rewriter.types[outputs[0]], Transpose(), *inputs),)
    if not isinstance(op, Contract):
        return None
    if op.left == op.right and not op.out:
        return (_inner_product(rewriter, inputs, rewriter.types[outputs[0]]),)
    if _sums_over_leading_axes(op):
        return (_of_rows(rewriter, inputs, rewriter.types[outputs[0]]),)
    for form, operands in ((op, inputs), (Contract(op.right, op.left, op.out), inputs[::-1])):
        order = _operand_orders(form)
        if order is not None:
            x, y = (
                _ordered(rewriter, value, axes, wanted)
                for value, axes, wanted in zip(operands, (form.left, form.right), order, strict=True)
            )
            return (rewriter.apply_as(rewriter.types[outputs[0]], MatMul(), x, y),)
    return None


def _sums_over_leading_axes(op: Contract) -> bool:
    """Return whether it is xᵀ y with several row axes, like the gradient of a weight."""
    rows, (m, n) = op.left[:-1], (op.left[-1:], op.right[-1:])
    return len(rows) > 1 and op.right[:-1] == rows and op.out == m + n and m != n


def _inner_product(rewriter: Rewriter, inputs: Values, type: NdArrayType) -> int:
    """Build Σ x · y over all axes."""
    flat: dict[int, int] = {}
    for value in dict.fromkeys(inputs):
        shape = rewriter.types[value].shape
        flat[value] = value if len(shape) == 1 else rewriter.apply(Reshape(shape, (product(shape),)), value)
    return rewriter.apply_as(type, MatMul(), *(flat[value] for value in inputs))


def _of_rows(rewriter: Rewriter, inputs: Values, type: NdArrayType) -> int:
    """Build xᵀ y, with all axes but the last merged."""
    flat = []
    for value in inputs:
        shape = rewriter.types[value].shape
        flat.append(rewriter.apply(Reshape(shape, (product(shape[:-1]), shape[-1])), value))
    x_type = rewriter.types[flat[0]]
    transposed = rewriter.apply_as(x_type.with_shape(x_type.shape[::-1]), Transpose(), flat[0])
    return rewriter.apply_as(type, MatMul(), transposed, flat[1])


def _operand_orders(op: Contract) -> tuple[Axes, Axes] | None:
    """Return the axis orders for which `x @ y` computes this contraction, or None."""
    contracted = tuple(a for a in op.left if a not in op.out)
    batch = tuple(a for a in op.out if a in op.left and a in op.right)
    m = tuple(a for a in op.out if a in op.left and a not in op.right)
    n = tuple(a for a in op.out if a in op.right and a not in op.left)
    if len(contracted) != 1 or op.out != batch + m + n or len(n) > 1:
        return None
    if batch and (len(m), len(n)) != (1, 1):
        return None
    if len(m) > 1 and op.left != m + contracted:
        return None  # a transpose of many axes costs more than einsum's reshape
    return batch + m + contracted, batch + contracted + n


def _ordered(rewriter: Rewriter, value: int, axes: Axes, wanted: Axes) -> int:
    if axes == wanted:
        return value
    order = tuple(axes.index(axis) for axis in wanted)
    op: Op = Transpose() if order == (1, 0) else Permute(order)
    type = Permute(order).outputs(rewriter.types[value])[0]
    return rewriter.apply_as(type, op, value)
