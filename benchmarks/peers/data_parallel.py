"""Data-parallel training on PyTorch with gloo, by one of several processes: times of a step and of its parts.

Run as `python -m benchmarks.peers.data_parallel FOLDER RANK COUNT`; the first process prints JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

ROUNDS, WARM = 30, 3
SIZES = (2**10, 2**24)
"""Bytes of the arrays whose sums tell latency and bandwidth."""


def least(call: Callable[[], object]) -> float:
    """Return the least wall time of some rounds, which all processes begin together."""
    times = []
    for _ in range(WARM + ROUNDS):
        dist.barrier()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times[WARM:])


def main(folder: Path, rank: int, count: int) -> None:
    """Measure a step, its computation alone, and sums of two sizes."""
    torch.set_num_threads(1)
    sys.path.insert(0, str(folder))
    import emitted  # type: ignore[import-not-found]

    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting{count}", rank=rank, world_size=count
    )
    learner = emitted.Learner(seed=0)
    with np.load(folder / "data.npz") as data:
        x, y = (torch.tensor(data[name]) for name in "xy")

    def compute() -> None:
        learner.update(learner.grads(x, y)[1])

    def step() -> None:
        gradients = learner.grads(x, y)[1]
        for gradient in gradients.values():
            dist.all_reduce(gradient.div_(count))
        learner.update(gradients)

    arrays = [torch.ones(size // 4) for size in SIZES]
    found = {
        "compute": least(compute),
        "sums": [least(lambda array=array: dist.all_reduce(array)) for array in arrays],  # type: ignore[misc]
        "step": least(step),
        "arrays": len(learner.parameters),
    }
    if rank == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
