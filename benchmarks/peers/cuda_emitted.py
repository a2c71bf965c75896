"""Emitted CUDA of catgrad: launches of kernels, a captured graph, or many steps in one call.

Words: `launches`, `graph` and `many`, and after one of them, `/tf32` multiplies float32 in TF32, and
`/cublaslt` leaves large products to cuBLASLt.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch

from benchmarks.cuda.library import Emitted
from benchmarks.cuda.workloads import GpuWorkload
from benchmarks.peers.gpu_worker import GpuWorker
from benchmarks.peers.worker import LOOPED, Case, Makers, Timed, serve
from benchmarks.workloads import drawn
from catgrad.programs.ports import Kind, Role
from catgrad.terms.state import Slot


class Stepper:
    """The emitted step of a case, with its tables and its batch on the device.

    For several `steps` in one call, the batch is repeated.
    """

    def __init__(self, case: Case, steps: int = 0) -> None:
        workload = GpuWorkload(**case.spec)
        task, simulate = workload.precise_task, case.device == "cpu"
        options = workload.options_of(case.word)
        self.emitted = Emitted.of_task(task, (Kind.STEP,), simulate, **options)
        self.steps = steps
        parameters = case.parameters
        self.tables = {
            role: [self._on(parameters[s.name] if role is Role.PARAMETER else initial(s)) for s in slots]
            for role, slots in self.emitted.program.tables.items()
        }
        data = [self._on(case.arrays[name]) for name in ("x", "y")]
        self.batch = [x.expand(steps, *x.shape).contiguous() if steps else x for x in data]
        self.losses = torch.zeros(steps or 1, device=self.emitted.device)

    def _on(self, array: np.ndarray) -> torch.Tensor:
        return torch.tensor(array, device=self.emitted.device)

    def _timed(self, name: str, first: Any = ()) -> Timed:
        call = self.emitted.bound(
            Kind.STEP, self.tables, self.batch, [self.losses], name, first=first, steps=self.steps
        )
        return Timed(lambda: call() or self.losses, self.steps or 1, self._fetch)

    def _fetch(self, losses: torch.Tensor) -> np.ndarray:
        self.emitted.wait()
        return losses.cpu().numpy().copy()

    def launches(self) -> Timed:
        """Launch the kernels of a step in each call."""
        return self._timed("step")

    def many(self) -> Timed:
        """Take many steps in each call."""
        return self._timed("step_many")

    def graph(self) -> Timed:
        """Launch a captured step in each call."""
        graph = ctypes.c_void_p()
        self._timed("graph_create", [ctypes.byref(graph)]).call()
        launch = self.emitted.checked("graph_launch", graph, self.emitted.stream)
        return Timed(lambda: launch() or self.losses, fetch=self._fetch)


def initial(slot: Slot) -> np.ndarray:
    """Return the first value of a buffer or of the optimiser's state, which is constant."""
    value = drawn(np.random.default_rng(0), slot.initial, slot.type.shape)
    return value.astype(slot.type.dtype.numpy)


def makers(case: Case) -> Makers:
    """The measure of the word of a case: launches, graph or many."""
    form = case.word.partition("/")[0]
    steps = LOOPED if form == "many" else 0
    return {"step": lambda: getattr(Stepper(case, steps), form)()}


if __name__ == "__main__":
    serve(makers, GpuWorker)
