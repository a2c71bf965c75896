"""Boxes of arrays: the parts of an array that tensor maps (TMA) describe, with zeros beyond its ends.

A factor of a product, whose offset in memory is affine in its place and its term, has the dimensions

    place, term, and the variables of a batch        each with a size, a stride and a first index

of which the innermost, place or term, has stride 1, and the others have multiples of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catgrad.dims import Size, coefficients, divided
from catgrad.loops.ir.index import Atom, Index, Quotient, Variable, index
from catgrad.loops.ir.scalar import GLOBAL, Bounds, Buffer, Load, Scalar, unmasked

MAP_BYTES = 16
"""Bytes whose multiples the strides and the beginning of an array with a tensor map are."""

MAX_DIMENSIONS = 4
"""Dimensions of a tensor map."""

SLICE_BYTES = 128
"""Bytes of the terms that are multiplied at once."""


@dataclass(frozen=True)
class Dimension:
    """A dimension of a tensor map, and the index along it at which a box begins."""

    size: Size
    stride: Size
    first: Index


@dataclass(frozen=True)
class Box:
    """The elements of a factor in an array, from an offset on, by dimensions, the innermost first."""

    buffer: Buffer
    offset: Size
    by_terms: bool
    dimensions: tuple[Dimension, ...]


def box(factor: Scalar, place: Variable, term: Variable) -> Box | None:
    """Describe a factor as boxes of all places and some terms; None if no tensor map can."""
    conditions, load = unmasked(factor)
    if not isinstance(load, Load) or not load.buffer.is_aligned or load.buffer.space not in GLOBAL:
        return None
    flat, own = load.buffer.flat(load.indices), {place, term}
    along = [_along(flat, conditions, v) for v in (place, term)]
    if any(own.isdisjoint(c.index.variables()) or c.below for c in conditions) or None in along:
        return None
    of_place, of_term = (d for d in along if d)
    rest = flat - index(place) * of_place.stride - index(term) * of_term.stride
    rest -= of_place.first * of_place.stride + of_term.first * of_term.stride
    batch = [Dimension(v.extent, c, index(v)) for v, c in rest.terms if isinstance(v, Variable)]
    if (
        len(batch) < len(rest.terms)
        or len(batch) > MAX_DIMENSIONS - 2
        or not own.isdisjoint(rest.variables())
    ):
        return None
    by_terms = of_term.stride == 1
    inner, outer = (of_term, of_place) if by_terms else (of_place, of_term)
    multiples = (outer.stride, *(d.stride for d in batch), rest.constant)
    whole = all(_is_multiple(n, MAP_BYTES // load.dtype.itemsize) for n in multiples)
    if inner.stride != 1 or not whole:
        return None
    return Box(load.buffer, rest.constant, by_terms, (inner, outer, *batch))


def _is_multiple(size: Size, number: int) -> bool:
    """Prove that a size is not negative, and a multiple of a number."""
    return divided(size, number) is not None and min(coefficients(size).values(), default=0) >= 0


def _along(flat: Index, conditions: Sequence[Bounds], variable: Variable) -> Dimension | None:
    """Describe the dimension that a variable goes along, and one condition ends."""
    ends = [c for c in conditions if variable in {*c.index.variables()}]
    if len(ends) != 1 or not flat.coefficient(variable):
        return None
    [(atom, unit)] = [(a, c) for a, c in ends[0].index.terms if variable in {*Index(((a, 1),)).variables()}]
    steps = _steps(atom, variable)
    if unit != 1 or steps is None:
        return None
    first = ends[0].index - Index(((atom, 1),))
    return Dimension(ends[0].size * steps, flat.coefficient(variable), first * steps)


def _steps(atom: Atom, variable: Variable) -> Size | None:
    """Return n if an atom is ⌊variable / n⌋."""
    if isinstance(atom, Quotient):
        return atom.divisor if atom.index == index(variable) else None
    return 1 if atom is variable else None
