"""Memoised call plans: the checks and sizes of a call, computed once for arrays of the same shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from catgrad.types import Array

from ..host.checks import Expected, signature

MAX_CACHED_PLANS = 100
"""Plans that are cached for each function."""


class Plan(NamedTuple):
    """The data of a call that depend on shapes alone."""

    sizes: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    workspace: int


class Plans:
    """The plans of a function by its arguments."""

    def __init__(self, expected: Expected, plan: Callable[[dict[str, int]], Plan]) -> None:
        self.expected, self.plan = expected, plan
        self._known: dict[tuple[object, ...], Plan] = {}

    def of(self, values: Sequence[Any]) -> tuple[Plan, list[Array]]:
        """Return the plan for these values, and the values as arrays, checked unless such shapes have been.

        Raises: as Expected.checked
        """
        seen = signature(values)
        plan = self._known.get(seen)
        if plan is not None:
            return plan, list(values)
        arrays = self.expected.checked(values)
        plan = self.plan(self.expected.sizes(arrays))
        if all(array is value for array, value in zip(arrays, values, strict=True)):
            if len(self._known) >= MAX_CACHED_PLANS:
                self._known.clear()
            self._known[seen] = plan
        return plan, arrays
