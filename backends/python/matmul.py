"""Contractions as matrix products `@`, with axes permuted and merged to a batch, rows and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from sys import maxsize

from catgrad.dims import Size, product
from catgrad.ops.contract import Contract
from catgrad.ops.shape import Permute, Reshape, rearranged
from catgrad.programs.passes.prune import prune
from catgrad.programs.passes.rewrite import Rewriter, Values
from catgrad.programs.program import Apply, Function
from catgrad.terms.op import Op

Axes = tuple[int, ...]


class MatMul(Op, register=False):
    """The product of `@`: (…, m, k) and (…, k, n), whose batch axes are broadcast, or vectors."""

    result = "product"


class Transpose(Op, register=False):
    """The transpose of a matrix."""

    rearranges = True

    def result_name(self, *operands: str) -> str:
        """Return `x.transposed` for the operand x."""
        return rearranged(operands[0], "transposed") or "transpose"


class Contiguous(Op, register=False):
    """A row-major copy, for products by a library, which needs contiguous rows or columns."""


@dataclass(frozen=True)
class MatmulForms:
    """The pass that prints contractions as `@` where it computes them.

    With `one_product` it merges the batch of an operand with its rows, for NumPy calls its library for each
    matrix of a batch. A library whose arrays have no strides `chooses_layouts` itself.
    """

    one_product: bool = False
    chooses_layouts: bool = False

    def __call__(self, function: Function) -> Function:
        """Replace each contraction that is a matrix product, or a batch of them, by MatMul."""
        return prune(Rewriter(function).sweep(partial(_spell, self)))


@dataclass(frozen=True)
class Form:
    """A contraction as x @ y: labels of the batch, of the rows of x, of the sum, and of the columns of y."""

    batch: Axes
    rows: Axes
    summed: Axes
    columns: Axes

    @property
    def out(self) -> Axes:
        """The labels of the product, in order."""
        return self.batch + self.rows + self.columns

    @property
    def has_matrices(self) -> bool:
        """Tell whether products in a batch are of matrices: einsum is as fast for those of vectors."""
        return bool(self.summed) and (not self.batch or bool(self.rows and self.columns))

    def cost(self, op: Contract, one_product: bool) -> tuple[bool, int, int]:
        """Order forms: those without a transpose or merged axes are best, then the largest products.

        If the result is transposed, the smallest are. For `one_product`, rows without a batch are one axis.
        """
        in_order = self.out == op.out
        are_one = one_product and not self.batch
        groups = (self.summed, self.columns) if are_one else (self.rows, self.summed, self.columns)
        merged = sum(len(group) > 1 for group in groups)
        return not in_order, merged if in_order else 0, len(self.batch) if in_order else -len(self.batch)


def _spell(forms: MatmulForms, rewriter: Rewriter, apply: Apply) -> Values | None:
    op, inputs, outputs = apply
    if isinstance(op, Permute) and op.order == (1, 0):
        return (rewriter.apply_as(rewriter.types[outputs[0]], Transpose(), *inputs),)
    if isinstance(op, Reshape) and isinstance(rewriter.op(inputs[0]), Reshape):
        return (_reshape(rewriter, inputs[0], op.after),)
    if not isinstance(op, Contract):
        return None
    orders = (op, Contract(op.right, op.left, op.out))
    sides = [*((each, each.right) for each in orders), *((each, each.left) for each in orders)]
    found = [(each, f) for each, side in sides for f in _forms(each, side) if f.has_matrices]
    if not found:
        return None
    each, form = min(found, key=lambda pair: pair[1].cost(pair[0], forms.one_product))
    operands = inputs if each is op else inputs[::-1]
    return (_product(rewriter, each, form, operands, forms.chooses_layouts),)


def _forms(op: Contract, side: Axes) -> Iterator[Form]:
    """Generate the forms with a batch of leading axes of the result, then the one with the least batch.

    The batch has the axes of all three arrays, and may have others of one operand, the `side`, so that one
    matrix multiplies many images in place.
    """
    shared = tuple(label for label in op.out if label in op.left and label in op.right)
    for length in range(len(op.out) + 1):
        batch, rest = op.out[:length], op.out[length:]
        if {*shared} <= {*batch} and {*batch} <= {*side}:
            yield Form(batch, *_groups(op, rest))
    yield Form(shared, *_groups(op, tuple(label for label in op.out if label not in shared)))


def _groups(op: Contract, rest: Axes) -> tuple[Axes, Axes, Axes]:
    rows = tuple(label for label in rest if label in op.left)
    columns = tuple(label for label in rest if label not in op.left)
    return rows, tuple(label for label in op.left if label not in op.out), columns


def _product(rewriter: Rewriter, op: Contract, form: Form, operands: Values, chooses_layouts: bool) -> int:
    sizes: dict[int, Size] = {}
    for value, axes in zip(operands, (op.left, op.right), strict=True):
        sizes |= dict(zip(axes, rewriter.types[value].shape, strict=True))
    x = _arranged(rewriter, operands[0], op.left, form.batch, (form.rows, form.summed))
    y = _arranged(rewriter, operands[1], op.right, form.batch, (form.summed, form.columns))
    if not chooses_layouts:
        x, y = (
            _contiguous(rewriter, value, bool(axes) and axes[-1] in form.batch)
            for value, axes in ((x, op.left), (y, op.right))
        )
    merged = _merged(sizes, _split(form.batch, (form.rows, form.columns)))
    z = rewriter.apply_as(rewriter.types[x].with_shape(merged), MatMul(), x, y)
    z = _reshape(rewriter, z, tuple(sizes[label] for label in form.out))
    return _permute(rewriter, z, form.out, op.out)


def _arranged(rewriter: Rewriter, value: int, axes: Axes, batch: Axes, groups: tuple[Axes, Axes]) -> int:
    """Permute and merge the axes of an operand to those of the batch that it has, and two groups."""
    sizes = dict(zip(axes, rewriter.types[value].shape, strict=True))
    wanted = [tuple(label for label in group if label in sizes) for group in _split(batch, groups)]
    while wanted and not wanted[0] and len(wanted) > 2:
        del wanted[0]  # `@` broadcasts the operand
    in_order = sorted(filter(None, wanted), key=lambda group: axes.index(group[0]))
    if tuple(chain(*in_order)) == axes and len(in_order) == len(wanted):
        value = _reshape(rewriter, value, _merged(sizes, in_order))
        order = tuple(map(in_order.index, wanted))
        value = _permute(rewriter, value, tuple(range(len(order))), order)
    else:
        # Copies go along long axes.
        shorter = len(wanted) > 1 and _last_size(sizes, wanted[-1]) < _last_size(sizes, wanted[-2])
        copied = [*wanted[:-2], wanted[-1], wanted[-2]] if shorter else wanted
        value = _permute(rewriter, value, axes, tuple(chain(*copied)))
        value = _reshape(rewriter, value, _merged(sizes, copied))
        order = tuple(range(len(wanted)))
        value = _permute(rewriter, value, order, (*order[:-2], order[-1], order[-2]) if shorter else order)
    return value


def _contiguous(rewriter: Rewriter, value: int, is_strided: bool) -> int:
    return rewriter.apply_as(rewriter.types[value], Contiguous(), value) if is_strided else value


def _split(batch: Axes, groups: tuple[Axes, Axes]) -> list[Axes]:
    """Return the labels of each axis of an operand of `@`; only in a batch must both groups have one."""
    return [*((label,) for label in batch), *(group for group in groups if group or batch)]


def _last_size(sizes: dict[int, Size], group: Axes) -> int:
    """Return the size of the last axis; a symbolic one is thought large."""
    size = sizes[group[-1]] if group else 1
    return size if isinstance(size, int) else maxsize


def _merged(sizes: dict[int, Size], groups: Sequence[Axes]) -> tuple[Size, ...]:
    return tuple(product(tuple(sizes[label] for label in group)) for group in groups)


def _reshape(rewriter: Rewriter, value: int, shape: tuple[Size, ...]) -> int:
    """Reshape a value, or that which it was reshaped from."""
    if isinstance(rewriter.op(value), Reshape):
        (value,) = rewriter.producer[value].inputs
    before = rewriter.types[value].shape
    return value if shape == before else rewriter.apply(Reshape(before, shape), value)


def _permute(rewriter: Rewriter, value: int, axes: Axes, wanted: Axes) -> int:
    if axes == wanted:
        return value
    order = tuple(axes.index(axis) for axis in wanted)
    op: Op = Transpose() if order == (1, 0) else Permute(order)
    return rewriter.apply_as(Permute(order).outputs(rewriter.types[value])[0], op, value)
