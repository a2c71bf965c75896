"""Emitted C++ of catgrad on ggml: many steps in one call."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from benchmarks.ggml.workloads import GgmlWorkload
from benchmarks.peers.worker import STEPS, TEN, Case, Makers, Timed, serve
from catgrad import emit


class Model:
    """The library of a case, built once."""

    def __init__(self, case: Case) -> None:
        self.case, self.workload = case, GgmlWorkload(**case.spec)

    @cached_property
    def loaded(self) -> Any:
        """The training class."""
        return emit(self.workload.task, "ggml", ["step_many"]).load(threads=self.case.threads)()

    def steps(self, count: int) -> Timed:
        """Steps in one call, on copies of the batch."""
        learner = self.loaded.learner(0)
        learner.parameters = self.case.parameters
        x, y = (np.stack([self.case.arrays[name]] * count) for name in ("x", "y"))
        return Timed(lambda: learner.step_many(x, y), count, parameters=lambda: dict(learner.parameters))


def makers(case: Case) -> Makers:
    """The measures: as many steps in one call as the case's word says, and ten."""
    model = Model(case)
    return {"step": lambda: model.steps(int(case.word)), TEN: lambda: model.steps(STEPS)}


if __name__ == "__main__":
    serve(makers)
