"""Sampling of images at the points of a grid."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from catgrad.ops.arithmetic import absolute, floor, multiply, round
from catgrad.ops.bounds import fmod
from catgrad.ops.cast import cast
from catgrad.ops.compare import select
from catgrad.ops.logic import logical_and
from catgrad.ops.reduce import broadcast
from catgrad.ops.resample import cubic, linear
from catgrad.ops.shape import reshape
from catgrad.ops.slices import slice
from catgrad.ops.take import take_along_axis
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var
from catgrad.types import Dtype

LINEAR, NEAREST, CUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)


def grid_sample(x: Any, grid: Var, mode: int, padding: int, align_corners: bool) -> Any:
    """Sample images at points, of which -1 and 1 are the ends of each axis, the last axis first.

    With `align_corners` these are the centres of the outermost elements, else their edges. The modes are
    LINEAR, NEAREST and CUBIC interpolation; beyond the ends are ZEROS, the elements at the BORDER, or
    REFLECTION.

    Type:     (T[n, c, h…], T[n, m…, k]) -> T[n, c, m…] for floating T and k spatial axes h…
    Gradient: by the formula, for x and for the grid
    Source:   GridSampler of PyTorch
    """
    batch, channels, *sizes = x.shape
    points = grid.shape[1:-1]
    taps = []
    for axis, size in enumerate(sizes):
        coordinate = reshape(_coordinates(grid, len(sizes) - 1 - axis), batch, *points)
        at = (coordinate + 1) * ((size - 1) / 2) if align_corners else ((coordinate + 1) * size - 1) * 0.5
        taps.append(_taps(at, size, mode, padding, align_corners))
    flat = reshape(x, batch, channels, prod(sizes))
    total = None
    for combination in product(*taps):
        index, weight, inside = combination[0]
        for size, (place, factor, is_inside) in zip(sizes[1:], combination[1:], strict=True):
            index = index * size + place
            weight = factor if weight is None else multiply(weight, factor)
            inside = is_inside if inside is None else logical_and(inside, is_inside)
        wide = (batch, channels, prod(points))
        rows = broadcast(reshape(index, batch, prod(points)), wide, [1])
        term = reshape(take_along_axis(flat, rows, 2), batch, channels, *points)
        if weight is not None:
            term = term * broadcast(weight, term.shape, [1])
        if inside is not None:
            term = select(broadcast(inside, term.shape, [1]), term, zeros_like(term))
        total = term if total is None else total + term
    return total


def _coordinates(grid: Var, number: int) -> Var:
    starts = [*(0 for _ in grid.shape[:-1]), number]
    return slice(grid, starts, (*grid.shape[:-1], 1))


def _taps(at: Var, size: int, mode: int, padding: int, align_corners: bool) -> list[tuple[Any, Any, Any]]:
    """Return, for each element that is read along an axis, its index, weight and whether it is inside."""
    if mode != CUBIC:
        at = _moved_inside(at, size, padding, align_corners)
    if mode == NEAREST:
        return [_element(round(at), None, size, padding, align_corners)]
    start = floor(at)
    weights = cubic(at - start) if mode == CUBIC else linear(at - start)
    return [_element(start + k, weight, size, padding, align_corners) for k, weight in weights]


def _element(
    place: Var, weight: Var | None, size: int, padding: int, align_corners: bool
) -> tuple[Var, Var | None, Var | None]:
    place = _moved_inside(place, size, padding, align_corners)
    inside = logical_and(place >= 0, place <= size - 1) if padding == ZEROS else None
    return cast(_clipped(place, size), Dtype.int64), weight, inside


def _moved_inside(at: Var, size: int, padding: int, align_corners: bool) -> Var:
    """Return the places that are read in the stead of those beyond the ends."""
    if padding == ZEROS:
        return at
    if padding == REFLECTION:
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if span == 0:
            return zeros_like(at)
        distance = absolute(at - low)
        rest = fmod(distance, Constant(at.type, span)())
        reflections = floor(distance * (1 / span))
        is_even = reflections - 2 * floor(reflections * 0.5) == 0
        at = select(is_even, rest, span - rest) + low
    return _clipped(at, size)


def _clipped(at: Var, size: int) -> Var:
    """Return the nearest place within an axis, with gradient 0 at its ends."""
    low, high = zeros_like(at), Constant(at.type, size - 1)()
    return select(at <= 0, low, select(at >= size - 1, high, at))
