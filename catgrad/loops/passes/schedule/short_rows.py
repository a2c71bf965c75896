"""Register blocking of sums over short rows, which lie apart: a partial sum for each element of a row.

    for i:                                  for i:
        for j:                                  sums[j, q] = 0
            sum = 0                             for p:
            for p:                                  for j:
                for q: sum += x[i, p, q]                for q: sums[j, q] += x[i, p, q] * w[j, p, q]
                            * w[j, p, q]        for j:
            y[i, j] = sum                           sum = 0
                                                    for q: sum += sums[j, q]
                                                    y[i, j] = sum

A compiler adds up the lanes of a vector after each loop over q, which takes longer than a short loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catgrad.dims import Size, divided, product
from catgrad.loops.ir.index import Index, Variable, index
from catgrad.loops.ir.nest import Reduce, Substituted, size_hint
from catgrad.loops.ir.scalar import Masked, Scalar

MIN_ROW, MAX_ROW = 4, 64
"""Elements of a row that is worth vectors, and of one whose lanes take as long to add up as its elements."""

MIN_ROWS = 4
"""Rows that are worth partial sums."""

MAX_STRIDE = 2
"""Distance of the elements of a row that vectors load side by side."""

MAX_ROW_SUMS = 256
"""Partial sums that stay in registers."""


@dataclass(frozen=True)
class ShortRows:
    """The loops of such a sum: free ones outside, over rows, free ones inside, and over elements of a row."""

    scalar: Scalar
    outside: tuple[Variable, ...]
    rows: tuple[Variable, ...]
    inside: tuple[Variable, ...]
    element: Variable

    @property
    def terms(self) -> Size:
        """The terms of each partial sum."""
        return product(tuple(v.extent for v in self.rows))


def short_rows(r: Reduce, free: Sequence[Variable], lanes: int) -> ShortRows | None:
    """Find the loops of a reduction over short rows that lie apart; None if it is no such reduction.

    Rows of whole vectors, which have so many lanes, are cut into these.
    """
    loads = list(r.scalar.loads())
    places = [load.buffer.flat(load.indices) for load in loads]
    if not places or not _is_affine(r.scalar, places):
        return None
    main = max(places, key=lambda place: sum(place.coefficient(v) != 0 for v in (*free, *r.axes)))
    order = sorted((*free, *r.axes), key=lambda v: -abs(size_hint(main.coefficient(v))))
    element = next((v for v in reversed(order) if v not in free or size_hint(v.extent) >= MIN_ROW), None)
    rows = tuple(v for v in order if v in r.axes and v is not element and v.extent != 1)
    if element not in r.axes or element is None or not rows or not _is_short(element, rows, places):
        return None
    scalar = r.scalar
    if element.extent != lanes and divided(element.extent, lanes) is not None:
        vector, lane = Variable(element.extent // lanes), Variable(lanes)
        scalar = Substituted({element: index(vector) * lanes + index(lane)}).scalar(scalar)
        rows, element = (*rows, vector), lane
    inside = _shared(element, [v for v in order if v in free], places)
    return ShortRows(scalar, tuple(v for v in free if v not in inside), rows, inside, element)


def _is_affine(scalar: Scalar, places: Sequence[Index]) -> bool:
    """Tell whether all elements are loaded, each from a place that is a sum of variables."""
    is_whole = not any(isinstance(x, Masked) for x in scalar.nodes())
    return is_whole and all(isinstance(atom, Variable) for place in places for atom, _ in place.terms)


def _is_short(element: Variable, rows: Sequence[Variable], places: Sequence[Index]) -> bool:
    """Tell whether a row is short, its elements side by side, and the next row does not follow them."""
    extent, last = element.extent, rows[-1]
    if not isinstance(extent, int) or not MIN_ROW <= extent <= MAX_ROW:
        return False
    strides = [abs(size_hint(place.coefficient(element))) for place in places]
    follows = all(place.coefficient(last) == extent * place.coefficient(element) for place in places)
    many = size_hint(product(tuple(v.extent for v in rows))) >= MIN_ROWS
    return many and not follows and 0 < max(strides) <= MAX_STRIDE


def _shared(element: Variable, free: Sequence[Variable], places: Sequence[Index]) -> tuple[Variable, ...]:
    """Find the innermost free variables on which not all loads depend, if their sums fit registers."""
    found: list[Variable] = []
    for v in reversed(free):
        count = product(tuple(each.extent for each in (v, *found, element)))
        if not isinstance(count, int) or count > MAX_ROW_SUMS or all(p.coefficient(v) for p in places):
            break
        found.insert(0, v)
    return tuple(found)
