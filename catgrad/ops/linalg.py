"""Small dense linear algebra by loops over columns: systems, Cholesky decomposition, determinants."""

from __future__ import annotations

from typing import Any

import numpy as np

from catgrad.errors import ShapeError
from catgrad.ops.arithmetic import absolute, sign
from catgrad.ops.compare import select
from catgrad.ops.contract import Contract
from catgrad.ops.control import scan
from catgrad.ops.diagonal import diagonal_matrix, lower, upper
from catgrad.ops.extrema import argmax, iota
from catgrad.ops.prefix import prod
from catgrad.ops.reduce import broadcast, sum
from catgrad.ops.shape import Shape, permute, reshape, transpose
from catgrad.ops.transcendental import log, sqrt
from catgrad.terms.op import INPUTS, OUTPUTS, Examples, Op, Saves, Types, floating
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType

__all__ = ["cholesky", "determinant", "inverse", "log_determinant", "solve", "solve_triangular"]


class SquareOp(Op, register=False):
    """An operation on square matrices, the last two axes of its first array, for floating T."""

    domain = (0.5, 2.0)

    def type(self, a: NdArrayType, *others: NdArrayType) -> Types:
        n = a.shape[-1] if a.rank > 1 else None
        if not isinstance(n, int) or a.shape[-2] != n or n < 1:
            raise ShapeError(
                "the last two axes must be those of square matrices, of a number of rows",
                f"they are those of {a}",
                "pad them with an identity",
            )
        for b in others:
            if b.dtype is not a.dtype or b.shape[:-1] != a.shape[:-1]:
                raise ShapeError(
                    f"the other side must be {a.dtype.value} and have the shape of {a} but for the last axis",
                    f"it is {b}",
                    "broadcast its leading axes",
                )
        return self.result_type(floating(a), *others)

    def result_type(self, a: NdArrayType, *others: NdArrayType) -> Types:
        """Return the type of the result for matrices of the type a."""
        return others[0] if others else a

    @classmethod
    def examples(cls) -> Examples:
        # Matrices of random numbers need not be regular; tests of the import have larger ones.
        return [(cls(), (NdArrayType((2, 1, 1)),) * cls.arity())]


class SolveTriangular(SquareOp):
    """Solution of a triangular system, A · X = B, by substitution; the other triangle of A is not read.

    With `unit`, the diagonal of A is 1 and not read either.

    Type:     (T[…, n, n], T[…, n, m]) -> T[…, n, m] for floating T and a number n
    Domain:   no zeros on the diagonal, where X is not finite
    Gradient: dB = A⁻ᵀ dX, dA = -dB Xᵀ in the triangle
    """

    is_upper: bool = False
    unit: bool = False
    saves = Saves(inputs=(0,), outputs=...)

    def ref(self, a: Array, b: Array) -> Array:
        rest, x, n = b.copy(), np.empty_like(b), a.shape[-1]
        with np.errstate(all="ignore"):
            for k in reversed(range(n)) if self.is_upper else range(n):
                x[..., k, :] = rest[..., k, :] if self.unit else rest[..., k, :] / a[..., k, k, None]
                others = slice(k) if self.is_upper else slice(k + 1, n)
                rest[..., others, :] -= a[..., others, k, None] * x[..., None, k, :]
        return x

    def body(self, a: Var, b: Var) -> Var:
        columns = permute(upper(a) if self.is_upper else lower(a), a.type.rank - 1, *range(a.type.rank - 1))

        def step(rest: Var, row: tuple[Var, Var]) -> tuple[Var, Var]:
            column, k = row
            x = _row(rest, k)
            if not self.unit:
                x = x / _wide(_column(column, k), x)
            return rest - outer(column, x), x

        _, rows = scan(step, b, (columns, iota(a.shape[-1])), backwards=self.is_upper)
        return permute(rows, *range(1, a.type.rank - 1), 0, a.type.rank - 1)

    def rev(self, a: Var, x: Var, dx: Var) -> tuple[Var, Var]:
        db = SolveTriangular(not self.is_upper, self.unit)(transpose(a), dx)
        da = -matmul(db, transpose(x))
        offset = 1 if self.unit else 0
        return upper(da, offset) if self.is_upper else lower(da, -offset), db


class Cholesky(SquareOp):
    """Cholesky decomposition of a positive definite matrix: A = L · Lᵀ, with a lower triangle L.

    Type:     T[…, n, n] -> T[…, n, n] for floating T and a number n
    Domain:   symmetric positive definite A, of which the lower triangle is read; elsewhere NaN, from the
              first column on whose pivot is not positive and finite
    Gradient: dA = (S + Sᵀ) / 2 for S = L⁻ᵀ Φ(Lᵀ dL) L⁻¹, where Φ takes the lower triangle with
              half the diagonal
    Source:   Murray 2016, Differentiation of the Cholesky decomposition (arXiv:1602.07527), equation 10
    """

    saves = OUTPUTS

    def ref(self, a: Array) -> Array:
        rest, factors = a.copy(), np.zeros_like(a)
        with np.errstate(all="ignore"):
            for k in range(a.shape[-1]):
                column = rest[..., k:, k] / np.sqrt(rest[..., k, k, None])
                factors[..., k:, k] = column
                rest[..., k:, k:] -= column[..., :, None] * column[..., None, :]
        return factors

    def body(self, a: Var) -> Var:
        def step(rest: Var, k: Var) -> tuple[Var, Var]:
            column = _column(rest, k)
            below = broadcast(iota(a.shape[-1]), column.shape) >= broadcast(k, column.shape)
            scaled = column / _wide(sqrt(_column(column, k)), column)
            scaled = select(below, scaled, zeros_like(scaled))
            return rest - outer(scaled, scaled), scaled

        _, columns = scan(step, a, iota(a.shape[-1]))
        return permute(columns, *range(1, a.type.rank), 0)

    def rev(self, factor: Var, dl: Var) -> Var:
        product = matmul(transpose(factor), dl)
        half = 0.5 * (lower(product) + lower(product, -1))
        back = SolveTriangular(is_upper=True)
        right = transpose(back(transpose(factor), transpose(half)))
        s = back(transpose(factor), right)
        return 0.5 * (s + transpose(s))


class Solve(SquareOp):
    """Solution of a system, A · X = B, by elimination with the greatest pivots of columns.

    Type:     (T[…, n, n], T[…, n, m]) -> T[…, n, m] for floating T and a number n
    Domain:   regular A; elsewhere infinities and NaN
    Gradient: dB = A⁻ᵀ dX, dA = -dB Xᵀ
    """

    saves = Saves(inputs=(0,), outputs=...)

    def ref(self, a: Array, b: Array) -> Array:
        rest, x = a.copy(), b.copy()
        with np.errstate(all="ignore"):
            for index in np.ndindex(a.shape[:-2]):
                _eliminate(rest[index], x[index])
        return x

    def body(self, a: Var, b: Var) -> Var:
        return eliminated(a, b)[0]

    def rev(self, a: Var, x: Var, dx: Var) -> tuple[Var, Var]:
        db = self(transpose(a), dx)
        return -matmul(db, transpose(x)), db


class Determinant(SquareOp):
    """Determinant: y = det A, by elimination.

    Type:     T[…, n, n] -> T[…] for floating T and a number n
    Gradient: dA = dy · adj(A)ᵀ, which is dy · y · A⁻ᵀ for a regular A, and finite for a singular one
    """

    saves = INPUTS

    def result_type(self, a: NdArrayType, *others: NdArrayType) -> Types:
        return a.with_shape(a.shape[:-2])

    def ref(self, a: Array) -> Any:
        return np.linalg.det(a)

    def body(self, a: Var) -> Any:
        _, pivots, signs = eliminated(a, None)
        return prod(pivots * signs, 0)

    def rev(self, a: Var, dy: Var) -> Var:
        return transpose(adjugate(a)) * broadcast(dy, a.shape, range(a.type.rank - 2, a.type.rank))


class LogDeterminant(SquareOp):
    """Sign and logarithm of the determinant: s and y with det A = s · e^y, by elimination.

    Type:     T[…, n, n] -> (T[…], T[…]) for floating T and a number n
    Domain:   0 and -∞ for a singular A, where the gradient is not finite
    Gradient: dA = dy · A⁻ᵀ
    """

    saves = Saves(inputs=...)

    def result_type(self, a: NdArrayType, *others: NdArrayType) -> Types:
        return (a.with_shape(a.shape[:-2]),) * 2

    def ref(self, a: Array) -> Any:
        return tuple(np.linalg.slogdet(a))

    def body(self, a: Var) -> tuple[Var, Var]:
        _, pivots, signs = eliminated(a, None)
        return prod(sign(pivots) * signs, 0), sum(log(absolute(pivots)), 0)

    def rev(self, a: Var, ds: Var, dy: Var) -> Var:
        return transpose(inverse(a)) * broadcast(dy, a.shape, range(a.type.rank - 2, a.type.rank))


cholesky, solve = Cholesky(), Solve()
determinant, log_determinant = Determinant(), LogDeterminant()


def solve_triangular(a: Var, b: Var, is_upper: bool = False, unit: bool = False) -> Var:
    """Solve A · X = B for a triangle A, by `SolveTriangular`."""
    return SolveTriangular(is_upper, unit)(a, b)


def eliminated(a: Var, b: Var | None) -> tuple[Var, Var, Var]:
    """Return X with A · X = B, the pivots, and -1 where rows were exchanged, both by column first.

    This is the Gauss-Jordan elimination, with the greatest element of each column as pivot. Without B a
    column of zeros, which a singular matrix has, is left as it is.
    """
    count = a.shape[-1]
    numbers = iota(count)

    def step(state: tuple[Var, ...], k: Var) -> tuple[tuple[Var, ...], tuple[Var, Var]]:
        matrix = state[0]
        column = _column(matrix, k)
        free = broadcast(numbers, column.shape) >= broadcast(k, column.shape)
        size = select(free, absolute(column), Constant(column.type, -1)())
        place = argmax(size)
        pivot = _column(column, place)
        divisor = pivot if b is not None else _or_one(pivot)
        exchanged = []
        for m in state:
            first, chosen = _row(m, k), _row(m, place)
            exchanged.append((_with_row(m, place, first), chosen / _wide(divisor, chosen)))
        factors = _column(exchanged[0][0], k)
        new = tuple(_with_row(m - outer(factors, row), k, row) for m, row in exchanged)
        one = Constant(pivot.type, 1)()
        return new, (pivot, select(place == broadcast(k, place.shape), one, -one))

    begin = (a,) if b is None else (a, b)
    end, (pivots, signs) = scan(step, begin, numbers)
    return end[-1], pivots, signs


def _eliminate(a: Array, b: Array) -> None:
    """Replace b by X with A · X = b, and A by the identity, as `eliminated` does."""
    for k in range(len(a)):
        place = k + int(np.argmax(np.abs(a[k:, k])))
        for m in (b, a):
            m[[k, place]] = m[[place, k]]
        pivot = a[k, k].copy()
        for m in (b, a):
            m[k] /= pivot
        others = np.arange(len(a)) != k
        for m in (b, a):
            m[others] -= np.outer(a[others, k], m[k])


def inverse(a: Var) -> Var:
    """Return A⁻¹, for matrices that are the last two axes of A."""
    return Solve()(a, diagonal_matrix(Constant(a.type.with_shape(a.shape[:-1]), 1)()))


def adjugate(a: Var) -> Var:
    """Return the adjugate, A⁻¹ · det A, also of a singular matrix, by elimination with complete pivoting.

    The last pivot, which alone is 0 in a matrix of rank n - 1, is multiplied by and not divided by.
    """
    count = a.shape[-1]
    unit = diagonal_matrix(Constant(a.type.with_shape(a.shape[:-1]), 1)())

    def step(state: tuple[Var, Var, Var], k: Any) -> tuple[tuple[Var, Var, Var], Var]:
        matrix, factor, order = state
        row, column = _greatest(matrix, k)
        matrix, order = (transpose(_exchanged(transpose(m), k, column)) for m in (matrix, order))
        matrix, factor = (_exchanged(m, k, row) for m in (matrix, factor))
        factors, pivot = _column(matrix, k), _column(_row(matrix, k), k)
        one, is_last = Constant(pivot.type, 1)(), broadcast(k == count - 1, pivot.shape)
        divisor, scale = select(is_last, one, _or_one(pivot)), select(is_last, pivot, one)
        new = []
        for m in (matrix, factor):
            chosen = _row(m, k)
            chosen = chosen / _wide(divisor, chosen)
            rest = m * broadcast(scale, m.shape, range(m.type.rank - 2, m.type.rank))
            new.append(_with_row(rest - outer(factors, chosen), k, chosen))
        flips = (row != broadcast(k, row.shape)) != (column != broadcast(k, column.shape))
        return (new[0], new[1], order), select(flips, -one, one) * select(is_last, one, pivot)

    (_, factor, order), pivots = scan(step, (a, unit, unit), iota(count))
    sign_and_size = broadcast(prod(pivots, 0), a.shape, range(a.type.rank - 2, a.type.rank))
    return matmul(order, factor) * sign_and_size


def outer(x: Var, y: Var) -> Var:
    """Return the outer products of the last axes: z[…, i, j] = x[…, i] · y[…, j]."""
    lead = tuple(range(x.type.rank - 1))
    i, j = x.type.rank - 1, x.type.rank
    return Contract((*lead, i), (*lead, j), (*lead, i, j))(x, y)


def matmul(x: Var, y: Var) -> Var:
    """Return the products of matrices that are the last two axes."""
    lead = tuple(range(x.type.rank - 2))
    i, k, j = range(len(lead), len(lead) + 3)
    return Contract((*lead, i, k), (*lead, k, j), (*lead, i, j))(x, y)


def _marked(place: Var, shape: Shape, axis: int) -> Var:
    """Return whether an index along an axis is that of a place, which each matrix may have its own."""
    others = [k for k in range(len(shape)) if k != axis]
    numbers = broadcast(iota(shape[axis]), shape, others)
    new = range(len(shape)) if place.type.rank == 0 else range(place.type.rank, len(shape))
    return numbers == broadcast(place, shape, new)


def _row(m: Var, place: Var) -> Var:
    """Return one row of each matrix."""
    axis = m.type.rank - 2
    return sum(select(_marked(place, m.shape, axis), m, zeros_like(m)), axis)


def _column(x: Var, place: Var) -> Var:
    """Return one column of each matrix, or one element of each vector."""
    axis = x.type.rank - 1
    return sum(select(_marked(place, x.shape, axis), x, zeros_like(x)), axis)


def _greatest(m: Any, k: Var) -> tuple[Var, Var]:
    """Return row and column of the greatest element of each matrix, of those from row and column k on."""
    shape, count, axis = m.shape, m.shape[-1], m.type.rank - 2
    free = broadcast(iota(count) >= broadcast(k, (count,)), shape[:-1])
    both = broadcast(free, shape, [axis + 1]) & broadcast(free, shape, [axis])
    size = select(both, absolute(m), Constant(m.type, -1)())
    place = argmax(reshape(size, *shape[:-2], count * count))
    return place // count, place % count


def _exchanged(m: Var, k: Var, place: Var) -> Var:
    """Return matrices with two rows exchanged."""
    return _with_row(_with_row(m, place, _row(m, k)), k, _row(m, place))


def _or_one(x: Var) -> Var:
    """Return numbers with 1 instead of each 0."""
    return select(x == 0, Constant(x.type, 1)(), x)


def _with_row(m: Var, place: Var, row: Var) -> Var:
    """Return matrices with one row replaced."""
    axis = m.type.rank - 2
    return select(_marked(place, m.shape, axis), broadcast(row, m.shape, [axis]), m)


def _wide(x: Var, like: Var) -> Var:
    """Broadcast numbers along the last axis."""
    return broadcast(x, like.shape, [like.type.rank - 1])
