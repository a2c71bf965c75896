"""Products, and running products, extrema and logarithms of sums along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np

from catgrad.dims import Dim, product
from catgrad.ops.activations import sigmoid
from catgrad.ops.arithmetic import absolute, maximum
from catgrad.ops.compare import select
from catgrad.ops.control import scan
from catgrad.ops.extrema import iota
from catgrad.ops.reduce import broadcast
from catgrad.ops.scalar import SpecialMap
from catgrad.ops.shape import normalised, permute, reshape
from catgrad.ops.slices import concat, slice
from catgrad.ops.take import take_along_axis
from catgrad.ops.transcendental import exp, log1p
from catgrad.terms.structural import Constant, stop_gradient, zeros_like
from catgrad.terms.var import Var

__all__ = ["cummax", "cummin", "cumprod", "logaddexp", "logcumsumexp", "prod"]


class LogAddExp(SpecialMap):
    """Logarithm of a sum of two exponentials: z = ln(eˣ + eʸ), for floating T.

    Type:     (T, T) -> T
    Gradient: dx = dz · σ(x - y), dy = dz · σ(y - x); half of dz each where both are one infinity
    """

    commutative = True
    ref = np.logaddexp

    def body(self, x: Var, y: Var) -> Var:
        return maximum(x, y) + log1p(exp(-absolute(_difference(x, y))))

    def rev(self, x: Var, y: Var, dz: Var) -> tuple[Var, Var]:
        share = sigmoid(_difference(x, y))
        return dz * share, dz * sigmoid(_difference(y, x))


def _difference(x: Var, y: Var) -> Var:
    """Return x - y; 0 of equal infinities."""
    return select(x == y, zeros_like(x), x - y)


logaddexp = LogAddExp()


def prod(x: Var, axes: int | Sequence[int] | None = None) -> Any:
    """Product over `axes`, by default over all, which are removed: y = Π x, in halves; in a loop if symbolic.

    Type:     (T) -> T without these axes, for numeric T
    Gradient: dx is dy times the product of the others, also where one of them is 0
    """
    chosen = normalised(axes, x.type.rank)
    rest = [axis for axis in range(x.type.rank) if axis not in chosen]
    shape = tuple(x.shape[axis] for axis in rest)
    count = product(tuple(x.shape[axis] for axis in chosen))
    one = Constant(x.type.with_shape(shape), 1)()
    if count == 0:
        return one
    rows = reshape(permute(x, *chosen, *rest), count, *shape)
    if isinstance(count, Dim):
        return scan(lambda total, row: (total * row, ()), one, rows)[0]
    while count > 1:
        half = count // 2
        pairs = _rows(rows, 0, half) * _rows(rows, half, half)
        rows = concat([pairs, _rows(rows, count - 1, 1)]) if count % 2 else pairs
        count -= half
    return reshape(rows, *shape)


def cumprod(x: Var, axis: int = -1) -> Var:
    """Running product along an axis: yᵢ = Πⱼ xⱼ over j ≤ i.

    Type:     (T) -> T for numeric T
    Gradient: by the loop, so it is right where elements are 0
    """

    def step(total: Var, row: Var) -> tuple[Var, Var]:
        new = total * row
        return new, new

    return _over_rows(lambda rows, one: scan(step, one, rows)[1], x, axis, 1)


def logcumsumexp(x: Var, axis: int = -1) -> Var:
    """Logarithm of the running sum of exponentials along an axis: yᵢ = ln Σⱼ e^xⱼ over j ≤ i.

    Type:     (T) -> T for floating T
    Gradient: by the loop, of LogAddExp
    """

    def step(total: Var, row: Var) -> tuple[Var, Var]:
        new = logaddexp(total, row)
        return new, new

    return _over_rows(lambda rows, none: scan(step, none, rows)[1], x, axis, -inf)


def cummax(x: Var, axis: int = -1) -> tuple[Var, Var]:
    """Running maximum along an axis, and its indices: the last of equal elements; a NaN stays.

    Type:     (T) -> (T, i64) for numeric T
    Gradient: each element of dy goes to the place its element came from
    """
    return _extremum(lambda new, old: new >= old, x, axis)


def cummin(x: Var, axis: int = -1) -> tuple[Var, Var]:
    """Running minimum along an axis, and its indices: the last of equal elements; a NaN stays.

    Type:     (T) -> (T, i64) for numeric T
    Gradient: each element of dy goes to the place its element came from
    """
    return _extremum(lambda new, old: new <= old, x, axis)


def _extremum(wins: Callable[[Var, Var], Var], x: Var, axis: int) -> tuple[Var, Var]:
    (place,) = normalised(axis, x.type.rank)

    def step(state: tuple[Var, Var], rows: tuple[Var, Var]) -> tuple[tuple[Var, Var], Var]:
        (best, at), (row, k) = state, rows
        chosen = wins(row, best)
        if x.dtype.is_floating:
            chosen = (row != row) | ((best == best) & chosen)
        at = select(chosen, broadcast(k, at.shape), at)
        return (select(chosen, row, best), at), at

    def indices(rows: Var, _: Var) -> Any:
        first = reshape(_rows(rows, 0, 1), *rows.shape[1:])
        numbers = iota(rows.shape[0])
        begin = (first, Constant(numbers.type.with_shape(first.shape), 0)())
        return scan(step, begin, (rows, numbers))[1]

    index = _over_rows(indices, stop_gradient(x), place, 0)
    return take_along_axis(x, index, place), index


def _over_rows(function: Callable[[Var, Var], Var], x: Var, axis: int, begin: float) -> Var:
    """Apply a function of rows and of a first row of one number, along an axis."""
    (place,) = normalised(axis, x.type.rank)
    others = [other for other in range(x.type.rank) if other != place]
    rows = permute(x, place, *others)
    result = function(rows, Constant(x.type.with_shape(rows.shape[1:]), begin)())
    return permute(result, *range(1, place + 1), 0, *range(place + 1, x.type.rank))


def _rows(x: Var, start: int, count: int) -> Var:
    return slice(x, (start, *[0] * (x.type.rank - 1)), (count, *x.shape[1:]))
