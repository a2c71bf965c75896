"""Bounds of sizes and indices, partial sums included, whatever the symbols are."""

from __future__ import annotations

from catgrad.dims import Dim, Size, product
from catgrad.loops.ir.index import Index, extent


def size_bound(size: Size) -> Size:
    """Sum the absolute values of a polynomial's terms: none of its partial sums is larger."""
    if not isinstance(size, Dim):
        return abs(size)
    total: Size = 0
    for monomial, coefficient in size.terms:
        total = total + abs(coefficient) * product(tuple(map(Dim, monomial)))
    return total


def index_bound(index: Index) -> Size:
    """Bound the absolute value of an index, and of its partial sums, over all values of its variables."""
    total = size_bound(index.constant)
    for atom, coefficient in index.terms:
        total = total + size_bound(coefficient) * size_bound(extent(atom))
    return total
