"""Optimisers of a part of each parameter: sparse updates of slices.

Source: Lin et al. 2022, On-device training under 256KB memory (arXiv:2206.15472), section 2.2
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from catgrad import ops
from catgrad.errors import OptionError
from catgrad.learn.optimiser import Optimiser, Run, StateArray, require_optimiser
from catgrad.learn.options import check_integer
from catgrad.ops.shape import normalised
from catgrad.terms.state import Slot
from catgrad.terms.var import Var
from catgrad.types import NdArrayType


def sliced(optimiser: Optimiser, start: int, stop: int, axis: int = 0) -> Optimiser:
    """The optimiser on a slice of each parameter: p[a:b] ← put(p[a:b], dp[a:b]) along an axis.

    All other elements are constant and have no state. A slice along two axes is one of a slice:
    sliced(sliced(optimiser, 0, 8), 0, 4, axis=1).

    Units:  0 ≤ a < b ≤ the size of the axis
    State:  that of the optimiser, of the slice
    Raises: OptionError for a slice that is not within a parameter, or an optimiser that is clipped
    """
    check_integer("the start of a slice", start, 0)
    check_integer("the stop of a slice", stop, start + 1)
    if require_optimiser(optimiser).prepare is not list:
        raise OptionError(
            "clipped must wrap sliced, because it scales all gradients together",
            f"inside it wraps {optimiser.name}",
            "write clipped(sliced(...), 1.0)",
        )

    def of_slice(parameter: Slot) -> Optimiser:
        part = _Part.of(parameter, start, stop, axis)
        narrow = replace(parameter, type=part.type(parameter.type))
        inner = optimiser.of(narrow)
        return inner if inner.is_frozen(narrow) else _on(part, inner)

    return Optimiser("sliced", optimiser.put, choose=of_slice)


@dataclass(frozen=True)
class _Part:
    """A slice along an axis."""

    start: int
    stop: int
    axis: int

    @staticmethod
    def of(parameter: Slot, start: int, stop: int, axis: int) -> _Part:
        """Return the slice of a parameter. Raises: OptionError unless it lies within."""
        (place,) = normalised(axis, parameter.type.rank)
        size = parameter.type.shape[place]
        if not isinstance(size, int) or stop > size:
            raise OptionError(
                f"the slice must lie within axis {place} of {parameter.name}, which has {size} elements",
                f"it is {start}:{stop}",
                f"select parameters with grouped, or stop at {size}",
            )
        return _Part(start, stop, place)

    def type(self, whole: NdArrayType) -> NdArrayType:
        """Return the type of the slice."""
        shape = whole.shape
        return whole.with_shape((*shape[: self.axis], self.stop - self.start, *shape[self.axis + 1 :]))

    def read(self, x: Var) -> Var:
        """Return the slice of x."""
        return self._between(x, self.start, self.stop)

    def written(self, x: Any, part: Var) -> Var:
        """Return x with another slice."""
        size = x.shape[self.axis]
        before = [self._between(x, 0, self.start)] if self.start else []
        after = [self._between(x, self.stop, size)] if self.stop < size else []
        return ops.concat([*before, part, *after], self.axis)

    def _between(self, x: Var, start: int, stop: int) -> Var:
        starts = [start if axis == self.axis else 0 for axis in range(x.type.rank)]
        return ops.slice(x, starts, replace(self, start=start, stop=stop).type(x.type).shape)


def _on(part: _Part, inner: Optimiser) -> Optimiser:
    """Return the optimiser that applies another to a slice."""

    def put(run: Run, *state_p_dp: Var) -> tuple[Var, ...]:
        *state, p, dp = state_p_dp
        *state, new = inner.put(run, *state, part.read(p), part.read(dp))
        return *state, part.written(p, new)

    def get(*state_p: Var) -> Var:
        *state, p = state_p
        return p if inner.get is Optimiser.get else part.written(p, inner.get(*state, part.read(p)))

    def narrowed(array: str | StateArray) -> StateArray:
        kept = StateArray(array) if isinstance(array, str) else array
        return replace(kept, type=lambda whole: kept.type(part.type(whole)))

    return Optimiser(f"sliced {inner.name}", put, tuple(map(narrowed, inner.state)), get)
