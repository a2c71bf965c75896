"""Symbolic sizes: renamed where a word of the language or an array has the name."""

from __future__ import annotations

from collections.abc import Iterable

from catgrad.dims import Dim, Size
from catgrad.naming import Namer
from catgrad.programs.program import Program
from catgrad.types import symbols


def with_free_sizes(program: Program, reserved: Iterable[str]) -> Program:
    """Rename each size that is called like a reserved word or an array."""
    names = {name for f in program.functions for name in symbols(f.argument_types)}
    arrays = (name for f in program.functions for name in (*f.names.values(), *(p.name for p in f.outputs)))
    taken = {*reserved, *arrays}
    namer, words = Namer({*taken, *names}), tuple(reserved)
    wanting = (name for name in sorted(names) if name in taken or Namer(words).fresh(name) != name)
    fresh: dict[str, Size] = {name: Dim(namer.fresh(name)) for name in wanting}
    return program.map(lambda function: function.substitute(fresh)) if fresh else program
