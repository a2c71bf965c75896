"""Liveness: the lines after which functions release large arrays, as few as keep their peak memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from catgrad.dims import numbers
from catgrad.printing.statements import Line, Statement
from catgrad.types import NdArrayType, symbols

LARGE = 2**16
"""Elements of an array that is released after its last use."""

TYPICAL = 16
"""The estimate of a symbolic size."""


@lru_cache(maxsize=1 << 12)
def elements(type: NdArrayType | None) -> int:
    """Count the elements of an array, none for what is no array."""
    if type is None:
        return 0
    (count,) = numbers((type.substitute(dict.fromkeys(symbols((type,)), TYPICAL)).size,))
    return count


def is_large(type: NdArrayType | None) -> bool:
    """Tell whether an array is worth releasing before a function ends."""
    return elements(type) >= LARGE


def postponed(
    last_read: Mapping[int, int], made: Mapping[int, int], types: Sequence[NdArrayType], lines: Sequence[Line]
) -> dict[int, int]:
    """Return the lines after which a function releases values, given those that make and last read them.

    It releases all that it may together, before a line that would need more memory than the peak, and before
    loops and branches. What it need not release before its end is left out.
    """
    new, dead = ([0] * len(lines) for _ in range(2))
    ending: list[list[int]] = [[] for _ in lines]
    for v, line in made.items():
        new[line] += elements(types[v])
    for v, line in last_read.items():
        dead[line] += elements(types[v])
        ending[line].append(v)
    live = [made - freed for made, freed in zip(accumulate(new), accumulate([0, *dead]), strict=False)]
    simple = [isinstance(line, Statement) for line in lines]
    peak = max((n for n, is_simple in zip(live, simple, strict=True) if is_simple), default=0)
    found: dict[int, int] = {}
    waiting: list[int] = []
    for k in range(1, len(lines)):
        waiting += ending[k - 1]
        if not simple[k] or live[k] + sum(elements(types[v]) for v in waiting) > peak:
            found |= dict.fromkeys(waiting, k - 1)
            waiting = []
    return found
