"""The worker of competitors on a GPU: the time between two events on the stream that runs them."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.cuda.clock import WARM_UP, profiled, sample
from benchmarks.peers.worker import Worker


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
        device, clock = sample(timed.call, times)
        return {"device": device / timed.steps, "clock": clock / timed.steps, "call": clock}

    def kernels(self, measure: str) -> dict[str, float]:
        """Return the seconds that each kernel takes in a step, the longest first, as CUPTI records them."""
        timed = self.built[measure]
        return profiled(timed.call, timed.steps)
