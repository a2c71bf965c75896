"""Diagonals of the last two axes: they are the first column of rows that are longer by one."""

from __future__ import annotations

from catgrad.dims import Dim, Size
from catgrad.errors import ShapeError
from catgrad.ops.compare import select
from catgrad.ops.extrema import iota
from catgrad.ops.reduce import broadcast
from catgrad.ops.shape import expand_dims, reshape
from catgrad.ops.slices import pad, slice
from catgrad.terms.structural import zeros_like
from catgrad.terms.var import Var

__all__ = ["diagonal", "diagonal_matrix", "lower", "upper", "with_diagonal"]


def diagonal(x: Var, offset: int = 0) -> Var:
    """Return a diagonal of the last two axes: y[…, i] = x[…, i, i + offset].

    Type:     T[…, m, n] -> T[…, k]
    Raises:   ShapeError if an axis is symbolic, and the other is not the same
    Gradient: dx has dy on the diagonal, and zeros elsewhere
    """
    k, row, column = _place(x, offset)
    lead = x.shape[:-2]
    starts = [*(0 for _ in lead), row, column]
    square = reshape(slice(x, starts, (*lead, k, k)), *lead, k * k)
    longer = reshape(pad(square, [*((0, 0) for _ in lead), (0, k)]), *lead, k, k + 1)
    first = slice(longer, [0] * longer.type.rank, (*lead, k, 1))
    return reshape(first, *lead, k)


def diagonal_matrix(x: Var, offset: int = 0) -> Var:
    """Return matrices with x on a diagonal: y[…, i, i + offset] = x[…, i], zeros elsewhere.

    Type:     T[…, k] -> T[…, k + |offset|, k + |offset|]
    Gradient: dx is the diagonal of dy
    """
    *lead, k = x.shape
    margins = [(0, 0) for _ in lead]
    longer = reshape(pad(expand_dims(x, -1), [*margins, (0, 0), (0, k)]), *lead, k * (k + 1))
    square = reshape(slice(longer, [0] * len(margins) + [0], (*lead, k * k)), *lead, k, k)
    row, column = max(0, -offset), max(0, offset)
    return pad(square, [*margins, (row, column), (column, row)])


def with_diagonal(x: Var, y: Var, offset: int = 0) -> Var:
    """Return x with y in the place of a diagonal of its last two axes.

    Type:     (T[…, m, n], T[…, k]) -> T[…, m, n]
    Raises:   as diagonal
    Gradient: dx is dy with zeros on the diagonal, the other one that diagonal
    """
    k, row, column = _place(x, offset)
    m, n = x.shape[-2:]
    margins = [*((0, 0) for _ in x.shape[:-2]), (row, m - k - row), (column, n - k - column)]
    return select(below(x, offset) & ~below(x, offset - 1), pad(diagonal_matrix(y), margins), x)


def below(x: Var, offset: int = 0) -> Var:
    """Return whether an element of the last two axes is on or below a diagonal: j ≤ i + offset.

    Type:     T[…, m, n] -> bool[…, m, n]
    """
    rank = x.type.rank
    rows = broadcast(iota(x.shape[-2]), x.shape, [axis for axis in range(rank) if axis != rank - 2])
    columns = broadcast(iota(x.shape[-1]), x.shape)
    return columns <= (rows + offset if offset else rows)


def lower(x: Var, offset: int = 0) -> Var:
    """Return the elements on and below a diagonal of the last two axes, zeros above.

    Type:     (T) -> T
    Gradient: that of y on and below the diagonal
    """
    return select(below(x, offset), x, zeros_like(x))


def upper(x: Var, offset: int = 0) -> Var:
    """Return the elements on and above a diagonal of the last two axes, zeros below.

    Type:     (T) -> T
    Gradient: that of y on and above the diagonal
    """
    return select(below(x, offset - 1), zeros_like(x), x)


def _place(x: Var, offset: int) -> tuple[Size, int, int]:
    """Return the length of a diagonal, and the row and column of its first element."""
    m, n = x.shape[-2:]
    if m == n and isinstance(m, Dim):
        return m - abs(offset), max(0, -offset), max(0, offset)
    if not isinstance(m, int) or not isinstance(n, int):
        raise ShapeError(
            "the axes of a diagonal must be numbers, or of one size",
            f"they are those of {x.type}",
            "fix their sizes",
        )
    row, column = max(0, -offset), max(0, offset)
    return max(0, min(m - row, n - column)), min(row, m), min(column, n)
