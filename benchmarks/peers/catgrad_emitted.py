"""Emitted programs of catgrad, by the learner of the target.

The word is the name of a target, and may end in `/any` for a batch whose size is a symbol, or for the target
ggml in the number of steps in one call.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np

from benchmarks.cpu.workloads import chosen
from benchmarks.ggml.workloads import GgmlWorkload
from benchmarks.peers.worker import LOOPED, STEPS, TEN, Case, Makers, Timed, serve
from catgrad import emit


class Model:
    """The library of a case, compiled once."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.target, _, self.size = case.word.partition("/")
        ggml = self.target == "ggml"
        workload = GgmlWorkload(**case.spec) if ggml else chosen(case.spec["name"])[0]
        self.workload = workload.any_batch() if self.size == "any" else workload

    @cached_property
    def loaded(self) -> Any:
        """The training class."""
        if self.target == "ggml":
            return emit(self.workload.task, "ggml", ["step_many"]).load(threads=self.case.threads)()
        options = {"openmp": True} if self.target == "c" and self.case.threads > 1 else {}
        functions = ["predict", "step"]
        functions += ["step_many", "predict_prepared"] if self.target == "c" else []
        return emit(self.workload.task, self.target, functions, **options).load()()

    def array(self, array: np.ndarray) -> Any:
        """Return an array as the target holds it."""
        if self.target != "torch":
            return array
        import torch

        torch.set_num_threads(self.case.threads)
        return torch.tensor(array)

    def learner(self) -> Any:
        """Return a learner with the case's first parameters."""
        learner = self.loaded.learner(0)
        learner.parameters = {name: self.array(array) for name, array in self.case.parameters.items()}
        return learner

    def timed(self, method: str, copies: int = 0) -> Timed:
        """Return a method of a learner on the batch, or on several copies of it in one call.

        Weights of predictions are packed before, if the target can, as others freeze theirs.
        """
        learner = self.learner()
        packs = method == "predict" and self.target == "c"
        call = learner.prepared() if packs else getattr(learner, method)
        data = [self.case.arrays[name] for name in (("x",) if method == "predict" else ("x", "y"))]
        arrays = [self.array(np.stack([array] * copies) if copies else array) for array in data]
        return Timed(lambda: call(*arrays), copies or 1, parameters=lambda: dict(learner.parameters))


def makers(case: Case) -> Makers:
    """The measures of the target; only some have many steps in one call."""
    model = Model(case)
    if model.target == "ggml":
        counts = {"step": int(model.size), TEN: STEPS}
        return {name: partial(model.timed, "step_many", count) for name, count in counts.items()}
    every = {"step": lambda: model.timed("step"), "predict": lambda: model.timed("predict")}
    if model.target == "c":
        every["loop"] = lambda: model.timed("step_many", LOOPED)
    return every


if __name__ == "__main__":
    serve(makers)
