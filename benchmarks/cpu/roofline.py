"""Roofline: the least time of a function, from its operations, its arrays and the peaks of the machine.

    t = max(n / P, Σ b / B(b)) / threads

n counts the multiplications and additions of products and convolutions, those in loops included; P is the
measured peak of a core in registers. Convolutions count as sums of products: Winograd's, which have 4/9 of
the multiplications where weights are 3 × 3 (ADR 34), can be faster than the line, by at most 9/4. Causal
attention counts as whole squares, of which the half that is masked need not be computed. The sum is over the
parameters, the state and the batch, b bytes each, read once, which products may hide; B(b) is the measured
bandwidth of the cache or memory that holds as many: an array is read at least as fast as any greater one. An
array of which only rows are gathered counts as these rows. Writing, intermediate arrays and elementwise
functions are free, and each thread has the bandwidth of one alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from benchmarks import machine
from benchmarks.machine import Peaks
from catgrad import Task
from catgrad.ops.gather import Gather
from catgrad.programs.program import Function


class Work(NamedTuple):
    """The operations of products, and the number of arrays of each size in bytes."""

    operations: int
    arrays: Mapping[int, int]


def work(task: Task, function: str) -> Work:
    """Count the work of a function of a task."""
    straight = machine.primitives(task, function)
    return Work(machine.products(straight), Counter(read(straight).values()))


def read(function: Function) -> dict[int, int]:
    """Return the bytes that a function must read of each argument.

    The new value of an array whose rows are gathered differs from the old one in these rows.
    """
    renewed = {old: function.results[new] for new, old in function.renewed().items()}
    found = {}
    for place, value in enumerate(function.arguments):
        readers = [each for each in function.body if value in each.inputs]
        gathers = [each for each in readers if isinstance(each.op, Gather) and each.inputs[0] == value]
        others = [each for each in readers if each not in gathers and renewed.get(place) not in each.outputs]
        found[value] = whole = int(function.types[value].bytes) if readers else 0
        if gathers and not others:
            rows = sum(int(function.types[each.outputs[0]].bytes) for each in gathers)
            found[value] = min(whole, rows)
    return found


def bandwidth(size: int, peaks: Peaks) -> float:
    """Return the bytes a second that are read from an array of a size."""
    measured = peaks.bandwidth
    place = max((each for each in measured if each <= size), default=min(measured))
    return max(rate for each, rate in measured.items() if each >= place)


def least_seconds(work: Work, peaks: Peaks, threads: int = 1) -> float:
    """Return the least time of some work."""
    reading = sum(count * size / bandwidth(size, peaks) for size, count in work.arrays.items())
    return max(work.operations / peaks.operations, reading) / threads
