"""Rounds in which emitted C and libraries compute in turns: the best of them and the median."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.harness import in_turns
from benchmarks.records import Row

OURS, ROUNDS = "catgrad c", 40
KINDS = ("seconds", "median")
"""The figures of a competitor: the least time, and the median."""


def rounds_of(functions: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Return the processor time of each function in each round, after a call."""
    for function in functions.values():
        function()
    return in_turns(functions, ROUNDS, clock=time.thread_time)


def figures(taken: Sequence[float]) -> dict[str, float]:
    """Return the best and the median of some times."""
    return dict(zip(KINDS, (min(taken), statistics.median(taken)), strict=True))


def row_of(what: str, taken: Mapping[str, Sequence[float]], **facts: object) -> Row:
    """Return the row of times by name."""
    return Row(what, {name: figures(each) for name, each in taken.items()}, facts=facts)


def rate(name: str, shown: Callable[[Row, float], float], form: str) -> Callable[[Row], str]:
    """Return the cell of a competitor: what is shown of its best time and of its median."""

    def cell(row: Row) -> str:
        times = [time for kind in KINDS if (time := row.seconds(name, kind))]
        return " | ".join(f"{shown(row, time):{form}}" for time in times) or "–"

    return cell


def ratios(row: Row) -> list[float]:
    """Return our times over those of the fastest library, of the best rounds and of medians."""
    both = [(row.ours(kind)[OURS], row.peers(kind).values()) for kind in KINDS]
    return [ours / min(others) for ours, others in both if others]


def beside(is_met: Callable[[float], bool]) -> Callable[[Row], str]:
    """Return the cell of ratios, in red where the goal is missed."""
    return lambda row: " | ".join(red(f"{r:.2f}", is_met(r)) for r in ratios(row)) or "–"


def red(text: str, is_met: bool) -> str:
    """Mark a goal that is missed."""
    return text if is_met else f"[red]{text}[/]"


def aligned(*shape: int) -> np.ndarray:
    """Return a random matrix aligned to a cache line, as in a workspace."""
    size = int(np.prod(shape))
    room = np.random.default_rng(0).normal(size=size + 16).astype(np.float32)
    start = -room.ctypes.data % 64 // 4
    return room[start : start + size].reshape(shape)
