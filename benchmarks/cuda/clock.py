"""Times on a GPU: between two events on the stream that runs the calls, of competitors in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from math import ceil
from statistics import median
from typing import Any, NamedTuple

import torch

WARM_UP = 20
"""Calls before the first sample."""

AGAIN = 3
"""Calls before each sample, as another competitor has just had the GPU; no more than those of a sample."""

ROUNDS = 55
"""Samples of each competitor."""

SAMPLE_SECONDS = 2e-3
"""Seconds of a sample, long enough for the resolution of events."""

PROFILED = 5
"""Calls of a profile."""

Call = Callable[[], Any]


class Sample(NamedTuple):
    """Seconds of one call: by events on the device, and by the clock of the host."""

    device: float
    clock: float


def sample(call: Call, times: int) -> Sample:
    """Measure some calls in a row."""
    for _ in range(min(AGAIN, times)):
        call()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    clock = time.perf_counter()
    begin.record()
    for _ in range(times):
        call()
    end.record()
    end.synchronize()
    clock = time.perf_counter() - clock
    return Sample(begin.elapsed_time(end) / 1e3 / times, clock / times)


def side_by_side(calls: Sequence[Call]) -> list[float]:
    """Return the median seconds of each call on the device, sampled in turn after warming up."""
    for call in calls:
        for _ in range(WARM_UP):
            call()
    times = [max(1, ceil(SAMPLE_SECONDS / sample(call, 1).clock)) for call in calls]
    samples: list[list[float]] = [[] for _ in calls]
    for k in range(ROUNDS):
        for i in range(len(calls)):
            place = (i + k) % len(calls)
            samples[place].append(sample(calls[place], times[place]).device)
    return [median(each) for each in samples]


def profiled(call: Call, steps: int = 1) -> dict[str, float]:
    """Return the seconds of each kernel and copy in a step, by name, of those in some calls."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(PROFILED):
            call()
        torch.cuda.synchronize()
    return by_name(profile.key_averages(), PROFILED * steps)


def by_name(events: Iterable[Any], steps: int) -> dict[str, float]:
    """Return the seconds of a step in each kernel of a profile, the longest first."""
    microseconds = {
        event.key: event.self_device_time_total
        for event in events
        if event.device_type == torch.profiler.DeviceType.CUDA and event.self_device_time_total
    }
    longest = sorted(microseconds, key=microseconds.__getitem__, reverse=True)
    return {name: microseconds[name] / 1e6 / steps for name in longest}


def card() -> dict[str, Any]:
    """Describe the GPU."""
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "memory": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "capability": f"{properties.major}.{properties.minor}",
    }
