"""Small dense linear algebra: triangular and general systems, Cholesky, inverses, determinants."""

from __future__ import annotations

from math import factorial, nan

from catgrad import ops
from catgrad.frontends.torch.aten.operands import common_shape
from catgrad.frontends.torch.registry import aten
from catgrad.ops.linalg import Cholesky, Determinant, LogDeterminant, Solve, SolveTriangular, inverse, matmul
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

HALVINGS = 25
"""The most halvings of a matrix before its exponential."""

LAST = (-2, -1)
"""The axes of matrices."""


def _together(a: Var, b: Var, is_vector: bool = False) -> tuple[Var, Var]:
    """Broadcast the leading axes of matrices and of the other sides, which may be vectors."""
    b = ops.expand_dims(b, b.type.rank) if is_vector else b
    lead = common_shape(a.shape[:-2], b.shape[:-2])
    return ops.broadcast_to(a, (*lead, *a.shape[-2:])), ops.broadcast_to(b, (*lead, *b.shape[-2:]))


def _failures(result: Var, kept: int) -> Var:
    """Return 1 for each matrix whose result is not finite, else 0."""
    axes = range(kept, result.type.rank)
    return ops.cast(~ops.all(ops.is_finite(ops.stop_gradient(result)), list(axes)), Dtype.int32)


@aten("linalg_cholesky_ex.default")
def cholesky_ex(a: Var, upper: bool = False, check_errors: bool = False) -> tuple[Var, Var]:
    """Cholesky decomposition, NaN unless the matrix is positive definite; 1 where it is not."""
    factor = cholesky(a, upper)
    return factor, _failures(factor, a.type.rank - 2)


@aten("cholesky.default")
def cholesky(a: Var, upper: bool = False) -> Var:
    """Cholesky decomposition, with the factor in the lower triangle or in the upper one."""
    symmetric = ops.transpose(a) if upper else a
    factor = Cholesky()(symmetric)
    return ops.transpose(factor) if upper else factor


@aten("linalg_solve_triangular.default")
def solve_triangular(a: Var, b: Var, upper: bool, left: bool = True, unitriangular: bool = False) -> Var:
    """Solution of a triangular system: A · X = B, or X · A = B."""
    a, b = _together(a, b)
    if left:
        return SolveTriangular(upper, unitriangular)(a, b)
    x = SolveTriangular(not upper, unitriangular)(ops.transpose(a), ops.transpose(b))
    return ops.transpose(x)


@aten("triangular_solve.default")
def old_solve_triangular(
    b: Var, a: Var, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Var, Var]:
    """Solution of a triangular system, and its matrix."""
    a, b = _together(a, b)
    if transpose:
        return SolveTriangular(not upper, unitriangular)(ops.transpose(a), b), a
    return SolveTriangular(upper, unitriangular)(a, b), a


@aten("cholesky_solve.default")
def cholesky_solve(b: Var, factor: Var, upper: bool = False) -> Var:
    """Solution of A · X = B by the Cholesky decomposition of A."""
    factor, b = _together(factor, b)
    low = ops.transpose(factor) if upper else factor
    return SolveTriangular(is_upper=True)(ops.transpose(low), SolveTriangular()(low, b))


@aten("cholesky_inverse.default")
def cholesky_inverse(factor: Var, upper: bool = False) -> Var:
    """Inverse of A by its Cholesky decomposition."""
    low = ops.transpose(factor) if upper else factor
    half = SolveTriangular()(low, _identity(low))
    return matmul(ops.transpose(half), half)


def _identity(like: Var) -> Var:
    """Return identity matrices of this type."""
    return ops.diagonal_matrix(Constant(like.type.with_shape(like.shape[:-1]), 1)())


@aten("_linalg_solve_ex.default")
def solve(a: Var, b: Var, left: bool = True, check_errors: bool = False) -> tuple[Var, None, None, Var]:
    """Solution of A · X = B, or X · A = B, not finite for a singular A; 1 where it is not."""
    is_vector = b.type.rank == 1 or (b.type.rank == a.type.rank - 1 and b.shape == a.shape[:-1])
    wide, other = _together(a, b, is_vector)
    if left or is_vector:
        x = Solve()(wide, other)
    else:
        x = ops.transpose(Solve()(ops.transpose(wide), ops.transpose(other)))
    x = ops.squeeze(x, -1) if is_vector else x
    return x, None, None, _failures(x, wide.type.rank - 2)


@aten("linalg_inv_ex.default")
def inverse_ex(a: Var, check_errors: bool = False) -> tuple[Var, Var]:
    """Inverse, not finite for a singular matrix; 1 where it is not."""
    y = inverse(a)
    return y, _failures(y, a.type.rank - 2)


@aten("_linalg_det.default")
def determinant(a: Var) -> tuple[Var, None, None]:
    """Determinant."""
    return Determinant()(a), None, None


@aten("_linalg_slogdet.default")
def log_determinant(a: Var) -> tuple[Var, Var, None, None]:
    """Sign and logarithm of the determinant."""
    return (*LogDeterminant()(a), None, None)


@aten("linalg_matrix_exp.default")
def matrix_exponential(a: Var) -> Var:
    """Exponential of matrices, by scaling and squaring: the Taylor polynomial of A / 2ˢ, squared s times.

    A norm beyond 2²⁴, with which not all digits of the scaled matrix would be right, gives NaN.
    """
    wide = ops.cast(a, a.dtype.wide)
    count, scale = _halvings(ops.stop_gradient(wide))

    def squared(y: Var, step: Var) -> tuple[Var, Var]:
        is_due = ops.broadcast(step, count.shape, range(count.type.rank)) < count
        return ops.select(ops.broadcast(is_due, y.shape, LAST), matmul(y, y), y), step + 1

    first = _taylor(wide * ops.broadcast(scale, wide.shape, LAST))
    y, _ = ops.repeat(squared, HALVINGS, first, Constant(NdArrayType((), count.dtype), 0)())
    return ops.cast(y, a.dtype)


def _halvings(a: Var) -> tuple[Var, Var]:
    """Return how often to halve each matrix for a norm of at most ½, and the factor; NaN for too often."""
    norm = ops.max(ops.sum(ops.absolute(a), -2))
    bounds = ops.array([2.0 ** (k - 1) for k in range(HALVINGS + 1)], a.dtype)
    table = (*norm.shape, HALVINGS + 1)
    norms = ops.broadcast(norm, table, [-1])
    is_above = norms > ops.broadcast(bounds, table, range(norm.type.rank))
    count = ops.sum(ops.cast(is_above, Dtype.int64), -1)
    factors = ops.array([*(2.0**-k for k in range(HALVINGS + 1)), nan], a.dtype)
    return count, ops.gather(factors, count)


def _taylor(a: Var) -> Var:
    """Sum Aⁿ / n! for n < 16, in four groups of powers. Source: Paterson and Stockmeyer 1973, section 2"""
    square = matmul(a, a)
    powers = [_identity(a), a, square, matmul(square, a)]
    fourth = matmul(square, square)

    def group(first: int) -> Var:
        one, *others = (power * (1 / factorial(first + k)) for k, power in enumerate(powers))
        return sum(others, one)

    total = group(12)
    for first in (8, 4, 0):
        total = matmul(total, fourth) + group(first)
    return total
