"""Boxes of arrays: the parts of an array that tensor maps (TMA) describe, with zeros beyond its ends.

A factor of a product, whose offset in memory is affine in its place and its term, has the dimensions

    place, term, and the variables of a batch        each with a size, a stride and an index

of which the innermost, place or term, has stride 1, and the others have multiples of 16 bytes. Where terms
are of several axes that do not lie in memory as one, slices are within the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catgrad.dims import Size, coefficients, divided
from catgrad.loops.ir.index import Atom, Index, Modulo, Quotient, Variable, combined, extent, index
from catgrad.loops.ir.scalar import GLOBAL, Bounds, Buffer, Load, Scalar, unmasked

MAP_BYTES = 16
"""Bytes whose multiples the strides and the beginning of an array with a tensor map are."""

MAX_DIMENSIONS = 4
"""Dimensions of a tensor map."""

SLICE_BYTES = 128
"""Bytes of the terms that are multiplied at once."""


@dataclass(frozen=True)
class Dimension:
    """A dimension of a tensor map, and the index along it of a place and a term."""

    size: Size
    stride: Size
    index: Index


@dataclass(frozen=True)
class Pixels:
    """The pixels along an axis of an image that windows begin at, and the `offset` of an element in a window.

    They are a `step` apart, from the `lower` corner to the `upper` one, which is counted from the last pixel.
    """

    lower: int
    upper: int
    step: int
    offset: Index


@dataclass(frozen=True)
class Box:
    """The elements of a factor in an array, from an offset on, by dimensions, the innermost first.

    In boxes of an image, the second and third one have `pixels`.
    """

    buffer: Buffer
    offset: Size
    by_terms: bool
    dimensions: tuple[Dimension, ...]
    pixels: tuple[Pixels, ...] = ()


def box(factor: Scalar, place: Variable, term: Variable) -> Box | None:
    """Describe a factor as boxes of all places and some terms; None if no tensor map can."""
    conditions, load = unmasked(factor)
    if not isinstance(load, Load) or not is_mapped(load.buffer):
        return None
    flat, own = load.buffer.flat(load.indices), {place, term}
    width = SLICE_BYTES // load.dtype.itemsize
    along = _along(flat, conditions, place), _slices(flat, term, width) or _along(flat, conditions, term)
    if any(own.isdisjoint(c.index.variables()) or c.below for c in conditions) or None in along:
        return None
    (of_place, *_), (of_term, *slow) = (each for each in along if each)
    rest = flat
    for d in (of_place, of_term, *slow):
        rest -= d.index * d.stride
    batch = [_dimension(v, c) for v, c in rest.terms if isinstance(v, Variable)]
    if len(batch) < len(rest.terms) or len(batch) + len(slow) > MAX_DIMENSIONS - 2:
        return None
    rest = combined([(rest, 1), *((d.index, d.stride * -1) for d in batch)])
    by_terms = of_term.stride == 1
    inner, outer = (of_term, of_place) if by_terms else (of_place, of_term)
    multiples = (outer.stride, *(d.stride for d in (*slow, *batch)), rest.constant)
    whole = all(_is_multiple(n, MAP_BYTES // load.dtype.itemsize) for n in multiples)
    if inner.stride != 1 or not whole or rest.terms:
        return None
    return Box(load.buffer, rest.constant, by_terms, (inner, outer, *slow, *batch))


def is_mapped(buffer: Buffer) -> bool:
    """Tell whether tensor maps can describe an array."""
    return buffer.is_aligned and buffer.space in GLOBAL


def _is_multiple(size: Size, number: int) -> bool:
    """Prove that a size is not negative, and a multiple of a number."""
    return divided(size, number) is not None and min(coefficients(size).values(), default=0) >= 0


def _slices(flat: Index, term: Variable, width: int) -> list[Dimension] | None:
    """Describe the dimensions that terms of several axes go along; None if they are of one."""
    fast, slow = list[Dimension](), list[Dimension]()
    for atom, stride in flat.terms:
        if isinstance(atom, Modulo) and atom.index == index(term) and _is_multiple(atom.divisor, width):
            fast.append(Dimension(atom.divisor, stride, Index(((atom, 1),))))
        elif isinstance(atom, Quotient | Modulo) and term in {*atom.index.variables()}:
            slow.append(_dimension(atom, stride))
    inner = [Quotient(index(term), d.size) for d in fast]
    are_slow = len(fast) == 1 and all(_counts(a, inner[0]) for d in slow for a, _ in d.index.terms)
    return [*fast, *slow] if are_slow else None


def _counts(atom: Atom, number: Atom) -> bool:
    """Tell whether an atom is a number, or a digit of it."""
    return atom == number or (isinstance(atom, Quotient | Modulo) and atom.index == index(number))


def _dimension(atom: Atom, stride: Size) -> Dimension:
    """Describe a dimension along an atom, from the last one on if it goes backwards."""
    at, size = Index(((atom, 1),)), extent(atom)
    if isinstance(stride, int) and stride < 0:
        return Dimension(size, -stride, at * -1 + (size - 1))
    return Dimension(size, stride, at)


def _along(flat: Index, conditions: Sequence[Bounds], variable: Variable) -> list[Dimension] | None:
    """Describe the dimension that a variable goes along, and one condition ends."""
    ends = [c for c in conditions if variable in {*c.index.variables()}]
    if len(ends) != 1 or not flat.coefficient(variable):
        return None
    [(atom, unit)] = [(a, c) for a, c in ends[0].index.terms if variable in {*Index(((a, 1),)).variables()}]
    steps = _steps(atom, variable)
    if unit != 1 or steps is None:
        return None
    first = ends[0].index - Index(((atom, 1),))
    at = first * steps + index(variable)
    return [Dimension(ends[0].size * steps, flat.coefficient(variable), at)]


def _steps(atom: Atom, variable: Variable) -> Size | None:
    """Return n if an atom is ⌊variable / n⌋."""
    if isinstance(atom, Quotient):
        return atom.divisor if atom.index == index(variable) else None
    return 1 if atom is variable else None
