"""Calibration: the extrema of each value of a function on batches of data, by the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from catgrad.errors import OptionError
from catgrad.programs.program import Function, evaluate
from catgrad.types import Array, as_numpy


@dataclass(frozen=True)
class Extrema:
    """The observer of values: the least and the greatest number of each, over all batches.

    With a `percentile` below 100, this part of the numbers of a batch lies between its two. With `momentum`,
    averages over batches move towards those of each by it, as in PyTorch's MovingAverageMinMaxObserver.

    Raises: OptionError unless 50 < percentile ≤ 100 and 0 < momentum ≤ 1
    """

    percentile: float = 100.0
    momentum: float | None = None

    def __post_init__(self) -> None:
        if not (50 < self.percentile <= 100 and 0 < (1 if self.momentum is None else self.momentum) <= 1):
            raise OptionError(
                "percentile must be above 50 and at most 100, and momentum above 0 and at most 1",
                f"they are {self.percentile} and {self.momentum}",
                "leave them out for the extrema of all numbers",
            )

    def of(self, array: Array) -> tuple[float, float]:
        """Return the two numbers of one batch."""
        finite = array[np.isfinite(array)]
        if not finite.size:
            return 0.0, 0.0
        if self.percentile == 100:
            return float(finite.min()), float(finite.max())
        low, high = np.percentile(finite, (100 - self.percentile, self.percentile))
        return float(low), float(high)

    def joined(self, old: tuple[float, float], new: tuple[float, float]) -> tuple[float, float]:
        """Return the two numbers of several batches."""
        if self.momentum is None:
            return min(old[0], new[0]), max(old[1], new[1])
        low, high = (a + self.momentum * (b - a) for a, b in zip(old, new, strict=True))
        return low, high


class Observer(Protocol):
    """A summary of the numbers of one value, over all batches."""

    def of(self, array: Array) -> Any:
        """Return that of one batch."""

    def joined(self, old: Any, new: Any) -> Any:
        """Return that of several."""


def calibrate(
    function: Function,
    arrays: Iterable[Array],
    batches: Iterable[object],
    observer: Callable[[int], Observer],
) -> Mapping[int, Any]:
    """Return what observers find of each floating-point value, where `arrays` are the tables of the function.

    Without batches, they find nothing.

    Raises: ShapeError, DtypeError if a batch does not fit the model; OptionError if one has NaN
    """
    tables, found = list(arrays), dict[int, Any]()

    def observe(value: int, array: Array) -> None:
        if function.types[value].dtype.is_floating:
            each = observer(value)
            new = each.of(np.asarray(array, np.float32))
            found[value] = each.joined(found[value], new) if value in found else new

    for batch in batches:
        inputs = [as_numpy(each) for each in (batch if isinstance(batch, (tuple, list)) else (batch,))]
        if any(array.dtype.kind == "f" and np.isnan(array).any() for array in inputs):
            raise no_numbers("inputs", "NaN")
        evaluate(function, *tables, *inputs, observe=observe)
    return found


def no_numbers(what: str, found: str) -> OptionError:
    """Return the error that a batch has NaN, or others that are no finite numbers."""
    return OptionError(f"{what} must have numbers", f"a batch has {found}", "leave out such rows of the data")


def no_data(layer: str) -> OptionError:
    """Return the error that a value has no extrema, by the name of the layer that computes it."""
    what = f"the result of {layer.removesuffix('.out')}" if layer else "some array"
    return OptionError(
        "there must be batches of inputs to calibrate with",
        f"there are none, and {what} has no learned scale",
        "pass some of the data",
    )
