"""Partial application of emitted functions to their tables, so that a call costs next to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_void_p, cast
from typing import TYPE_CHECKING, Any

import numpy as np

from .library import address, table_of
from .plans import Plans

if TYPE_CHECKING:
    from .harness import LibraryFunction


class BoundFunction:
    """A function with its own arrays as arguments and results; the tables are updated in place.

    It owns the structs of the tables, and whatever else is to be `kept` in memory.
    """

    def __init__(self, function: LibraryFunction, tables: Sequence[Any], kept: Any = None) -> None:
        self.function, self.library, self.kept = function, function.library, (tables, kept)
        # Addresses cost a call less than structs.
        self.tables = [cast(table, c_void_p).value for table in tables]
        self.call, self.convention = function.call, function.convention
        self.plans = Plans(function.own, function.plan)
        # Calls that change the tables cannot overlap, so they may write numbers to one buffer.
        changes = any(changed for _, changed in function.convention.tables)
        is_fixed = changes and all(type.rank == 0 for type in function.results)
        self.fixed = [np.empty((), type.dtype.numpy) for type in function.results] if is_fixed else []
        self.places = list(map(address, self.fixed))

    def __call__(self, *values: Any) -> list[Any]:
        """Return the function's own results, then a gradient for each parameter if it computes these."""
        plan, arrays = self.plans.of(values)
        outputs = self.fixed or self.function.outputs(plan)
        places = self.places or map(address, outputs)
        gradients = self.function.new_gradients() if self.convention.writes_gradients else []
        own: list[Any] = (
            [table_of(arrays)] if self.convention.reads_gradients else [address(a) for a in arrays]
        )
        if gradients:
            own.append(table_of(gradients))
        code = self.call(*self.tables, *plan.sizes, *own, *places, *self.library.ending(plan.workspace))
        if code:
            raise self.library.refuse(code, self.plans.expected.function)
        return [*(y if y.ndim else y[()] for y in outputs), *gradients]
