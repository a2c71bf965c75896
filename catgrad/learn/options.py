"""Validation of numeric options."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from catgrad.errors import OptionError


def check_integer(what: str, value: object, least: int) -> None:
    """Raise OptionError unless the value is an integer of at least `least`."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise OptionError(
            f"{what} must be an integer of at least {least}", f"it is {value!r}", f"try {max(least, 1)}"
        )


def number(what: str, value: object, least: float = 0.0) -> float:
    """Return the value as a float. Raises: OptionError unless it is finite and at least `least`."""
    found = _float(value)
    if not (isfinite(found) and found >= least):
        raise OptionError(
            f"{what} must be a finite number of at least {least:g}", f"it is {value!r}", "try 0.01"
        )
    return found


def fraction(what: str, value: float) -> float:
    """Return the value as a float. Raises: OptionError unless 0 ≤ value < 1."""
    found = _float(value)
    if not 0 <= found < 1:
        raise OptionError(f"{what} must lie in [0, 1)", f"it is {value!r}", "try 0.9")
    return found


def positive(what: str, value: float) -> float:
    """Return the value as a float. Raises: OptionError unless it is positive and finite."""
    found = _float(value)
    if not 0 < found < float("inf"):
        raise OptionError(f"{what} must be a positive number", f"it is {value!r}", "try 0.01")
    return found


def _float(value: Any) -> float:
    """Convert to a float; NaN if that fails."""
    try:
        return float(value) if not isinstance(value, (str, bool)) else float("nan")
    except (TypeError, ValueError):
        return float("nan")
