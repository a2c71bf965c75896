"""The worker process of a competitor: builds a case on request, and times it in rounds.

Started as `python -m benchmarks.peers.NAME FOLDER THREADS [WORD]`, it answers each line of JSON with one
line. Output of libraries goes to stderr. It needs NumPy, but not catgrad.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

STEPS, LOOPED = 10, 64
TEN = "ten steps"
"""The measure whose call takes ten steps, of competitors whose calls take many."""


@dataclass(frozen=True)
class Case:
    """A workload for a peer: model, data, and number of threads."""

    folder: Path
    threads: int
    word: str = ""

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The model, its loss and its optimiser."""
        return json.loads((self.folder / "workload.json").read_text())

    @property
    def device(self) -> str:
        """The device of PyTorch: "cpu", or "cuda" if the workload says so."""
        return str(self.spec.get("device", "cpu"))

    @property
    def flags(self) -> frozenset[str]:
        """The parts of the word of a competitor, between slashes."""
        return frozenset(self.word.split("/"))

    @property
    def precision(self) -> str:
        """The precision of matrix products: "float32", "tf32" or "bf16"."""
        return "tf32" if "tf32" in self.flags else str(self.spec.get("precision", "float32"))

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The batch, x and y."""
        return dict(np.load(self.folder / "data.npz"))

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """First values by name, matrices as [in, out]; read each time, for they may be large."""
        return dict(np.load(self.folder / "parameters.npz"))


@dataclass(frozen=True)
class Timed:
    """A function to time, and its number of steps. It returns the losses of the steps, or scores.

    `fetch` converts what it returns to an array of NumPy; `parameters` returns the model's by name, matrices
    as [in, out].
    """

    call: Callable[[], Any]
    steps: int = 1
    fetch: Callable[[Any], np.ndarray] = np.asarray
    parameters: Callable[[], Mapping[str, np.ndarray]] = dict


Makers = Mapping[str, Callable[[], Timed]]
"""For each measure of a competitor, a function that builds it."""


def loss_of(case: Case, scores: np.ndarray) -> float:
    """Return the loss of a prediction, to compare all competitors by one number."""
    scores, y = np.asarray(scores, np.float64), case.arrays["y"]
    if case.spec["loss"] == "mse":
        return float(np.mean((scores - y) ** 2))
    shifted = scores - scores.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return float(-np.take_along_axis(log_p, y[..., None], -1).mean())


class Worker:
    """The cases that a process has built."""

    def __init__(self, case: Case, makers: Makers) -> None:
        self.case, self.makers, self.built = case, makers, {}

    def prepare(self, measure: str) -> dict[str, Any]:
        """Build a case; return the seconds up to the end of its first call, and its first losses."""
        if measure not in self.makers:
            return {"absent": True}
        start = time.perf_counter()
        timed = self.built[measure] = self.makers[measure]()
        first = timed.call()
        seconds = time.perf_counter() - start
        if measure == "predict":
            losses = [loss_of(self.case, timed.fetch(first))]
        elif timed.steps > 1:
            losses = timed.fetch(first)[:STEPS].tolist()
        else:
            losses = [float(first), *(float(timed.call()) for _ in range(STEPS - 1))]
        return {"seconds": seconds, "losses": losses}

    def time(self, measure: str, times: int) -> dict[str, Any]:
        """Return the seconds of one step or prediction, by processor and by clock, and of one call."""
        timed = self.built[measure]
        gc.disable()
        clock, processor = time.perf_counter(), time.process_time()
        for _ in range(times):
            timed.call()
        processor, clock = time.process_time() - processor, time.perf_counter() - clock
        gc.enable()
        count = times * timed.steps
        return {"processor": processor / count, "clock": clock / count, "call": clock / times}

    def train(self, path: str) -> dict[str, Any]:
        """Take ten steps from the first parameters, and write the parameters after them to a file."""
        if "step" not in self.makers:
            return {"absent": True}
        timed = self.makers.get(TEN, self.makers["step"])()
        for _ in range(STEPS // timed.steps):
            timed.call()
        np.savez(path, **timed.parameters())
        return {}

    def memory(self) -> dict[str, Any]:
        """Return the peak memory of this process in bytes, without that of its parent."""
        lines = Path("/proc/self/status").read_text().splitlines()
        return {"bytes": 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))}


def serve(makers: Callable[[Case], Makers], kind: type[Worker] = Worker) -> None:
    """Answer requests until there are no more, by a worker of a kind."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    case = Case(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-case.threads :])
    worker = kind(case, makers(case))
    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(worker, request.pop("do"))(**request)
        print(json.dumps(answer), file=answers)
