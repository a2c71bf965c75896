"""Triangles and diagonals of matrices."""

from __future__ import annotations

from catgrad import ops
from catgrad.frontends.torch.aten.operands import axes_of, summed
from catgrad.frontends.torch.registry import aten
from catgrad.terms.var import Var

aten("tril.default")(lambda x, diagonal=0: ops.lower(x, diagonal))
aten("triu.default")(lambda x, diagonal=0: ops.upper(x, diagonal))


def _at_end(x: Var, dim1: int, dim2: int) -> tuple[Var, list[int]]:
    """Return x with two axes moved to the end, and the order of its axes."""
    first, second = (*axes_of(x, dim1), *axes_of(x, dim2))
    order = [*(k for k in range(x.type.rank) if k not in (first, second)), first, second]
    return ops.permute(x, *order), order


@aten("diagonal.default")
def diagonal(x: Var, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Var:
    """Return a diagonal of two axes, which becomes the last axis."""
    return ops.diagonal(_at_end(x, dim1, dim2)[0], offset)


@aten("diagonal_scatter.default")
def diagonal_scatter(x: Var, part: Var, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Var:
    """Replace a diagonal of two axes of x."""
    matrices, order = _at_end(x, dim1, dim2)
    changed = ops.with_diagonal(matrices, ops.cast(part, x.dtype), offset)
    return ops.permute(changed, *(order.index(axis) for axis in range(x.type.rank)))


@aten("diag_embed.default")
def diagonal_matrices(x: Var, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Var:
    """Return matrices with the last axis of x on a diagonal of two new axes."""
    y = ops.diagonal_matrix(x, offset)
    rank = y.type.rank
    first, second = dim1 % rank, dim2 % rank
    order = list(range(rank - 2))
    for axis, place in sorted([(rank - 2, first), (rank - 1, second)], key=lambda pair: pair[1]):
        order.insert(place, axis)
    return ops.permute(y, *order)


aten("trace.default")(lambda x: ops.sum(summed(ops.diagonal(x))))
