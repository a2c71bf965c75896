"""Initial values of tables, computed by the emitted library."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from catgrad.programs.ports import Role
from catgrad.programs.program import Function, Program
from catgrad.types import Array

from ..host.checks import Expected
from ..host.tables import Table
from .library import SharedLibrary


class Initial:
    """A function from a seed to the initial values of a table."""

    def __init__(self, library: SharedLibrary, program: Program, function: Function) -> None:
        self.library, self.program, self.function = library, program, function
        self.__name__, self.__doc__ = function.name, function.doc
        self.expected = Expected(function.name, ("seed",), function.argument_types)

    def __call__(self, seed: ArrayLike = 0) -> list[Array]:
        """Compute the initial values, determined by the seed."""
        tables = self.tables(seed)
        return [np.require(a, None, ["W"]) for role in self.function.changes for a in tables[role].values()]

    def tables(self, seed: ArrayLike) -> Mapping[Role, Table]:
        """Create all tables with their initial values."""
        [checked] = self.expected.checked([seed])
        return self.library.tables(self.program, int(checked))
