"""The worker of competitors on a GPU: the time between two events on the stream that runs them."""

from __future__ import annotations

import time
from typing import Any

import torch

from benchmarks.peers.worker import Worker

WARM_UP = 20
"""Calls before the first sample."""

AGAIN = 3
"""Calls before each sample, as other competitors have just had the GPU."""


class GpuWorker(Worker):
    """The cases that a process has built, on the current stream of PyTorch."""

    def prepare(self, measure: str) -> dict[str, Any]:
        """Build a case, take its first steps, and warm up."""
        answer = super().prepare(measure)
        if "losses" in answer:
            for _ in range(WARM_UP):
                self.built[measure].call()
            torch.cuda.synchronize()
        return answer

    def time(self, measure: str, times: int) -> dict[str, Any]:
        """Return the seconds of one step by events and by the clock, and of one call."""
        timed = self.built[measure]
        for _ in range(AGAIN):
            timed.call()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        clock = time.perf_counter()
        begin.record()
        for _ in range(times):
            timed.call()
        end.record()
        end.synchronize()
        clock = time.perf_counter() - clock
        count = times * timed.steps
        device = begin.elapsed_time(end) / 1e3
        return {"device": device / count, "clock": clock / count, "call": clock / times}

    def memory(self) -> dict[str, Any]:
        """Return the peak memory of PyTorch's allocator on the GPU, in bytes."""
        return {"bytes": torch.cuda.max_memory_allocated()}
