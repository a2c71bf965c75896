"""Symbolic sizes in C: names that C can have for them, and how large what is computed of them may get."""

from __future__ import annotations

from collections.abc import Iterable

from catgrad.dims import Dim, Size, product
from catgrad.loops.ir.index import Index, extent
from catgrad.naming import Namer
from catgrad.programs.program import Program
from catgrad.types import symbols


def with_free_sizes(program: Program, reserved: Iterable[str]) -> Program:
    """The program with another name for each size that is called like a word of C or an array."""
    names = {name for f in program.functions for name in symbols(f.argument_types)}
    arrays = (name for f in program.functions for name in (*f.names.values(), *(p.name for p in f.outputs)))
    taken = {*reserved, *arrays}
    namer, words = Namer({*taken, *names}), tuple(reserved)
    wanting = (name for name in sorted(names) if name in taken or Namer(words).fresh(name) != name)
    fresh: dict[str, Size] = {name: Dim(namer.fresh(name)) for name in wanting}
    return program.map(lambda function: function.substitute(fresh)) if fresh else program


def bound(size: Size) -> Size:
    """Sum the absolute values of a polynomial's terms: none of its partial sums is larger."""
    if not isinstance(size, Dim):
        return abs(size)
    total: Size = 0
    for monomial, coefficient in size.terms:
        total = total + abs(coefficient) * product(tuple(map(Dim, monomial)))
    return total


def index_bound(index: Index) -> Size:
    """Bound the absolute value of an index, and of its partial sums, over all values of its variables."""
    total = bound(index.constant)
    for atom, coefficient in index.terms:
        total = total + bound(coefficient) * bound(extent(atom))
    return total
