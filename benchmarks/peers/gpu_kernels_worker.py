"""Kernels of catgrad and of PyTorch, side by side in one process; the words are those of parts."""

from __future__ import annotations

from typing import Any

from benchmarks.cuda import kernels as gpu_kernels
from benchmarks.peers.worker import Case, Makers, Worker, serve


class KernelWorker(Worker):
    """Measures ceilings, and one case of its part after the other."""

    def __init__(self, case: Case, makers: Makers) -> None:
        super().__init__(case, makers)
        self.rest = self._bound()

    def _bound(self) -> Any:
        for case, bind in gpu_kernels.bindings(self.case.word, simulate=False):
            yield case.name, bind
        if self.case.word == "rows":
            yield "AdamW", lambda: gpu_kernels.adamw(gpu_kernels.UPDATED, simulate=False)

    def ceilings(self) -> dict[str, float]:
        """Measure what the card can do."""
        return gpu_kernels.ceilings()

    def measure(self, kernel: str) -> dict[str, Any]:
        """Compare the results of a kernel, and measure it; those before it are passed over."""
        bind = next(bind for name, bind in self.rest if name == kernel)
        each = bind()
        seconds = gpu_kernels.measured(each)
        about = {"bytes": each.bytes, "operations": each.operations, "precision": each.precision}
        return {**about, "seconds": seconds}


if __name__ == "__main__":
    serve(lambda case: {}, KernelWorker)
