"""A process of test_processes.py: it runs programs of docs/howto/many-devices.md on its share of the rows.

The folder has `cases.json`, the emitted modules that cases name, and their batches.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.fsdp
import torch.distributed.tensor

from catgrad.learn.fit import checkpoint

SEED = 3


def batches(path: str) -> list[list[torch.Tensor]]:
    """Read this process's rows of each batch."""
    rank, count = dist.get_rank(), dist.get_world_size()
    with np.load(path) as arrays:
        steps = range(len(arrays) // 2)
        return [[torch.tensor(arrays[f"{n}{k}"]).chunk(count)[rank] for n in "xy"] for k in steps]


def emitted(case: Mapping[str, Any]) -> Any:
    """Return the emitted file, whose learners begin at a checkpoint and draw by a seed of the process."""
    net = importlib.import_module(case["name"])

    def learner(seed: int) -> Any:
        made = net.Learner(SEED)
        if "checkpoint" in case:
            checkpoint.load(made, case["checkpoint"])
        if case["own_masks"] and "seed" in made.buffers:
            made.buffers["seed"] += dist.get_rank()
        return made

    def module(seed: int) -> Any:
        made = net.Net(SEED)
        if case["own_masks"] and hasattr(made, "seed"):
            made.seed += dist.get_rank()
        return made

    return SimpleNamespace(Learner=learner, Net=module, criterion=getattr(net, "criterion", None))


def results(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters and buffers after a program, and the bytes of the process's shares."""
    if "module" in variables:
        values = variables["module"].state_dict()
        arrays = [*values.values()]
        arrays += [a for state in variables["optimiser"].state.values() for a in state.values()]
    else:
        values = variables["learner"].parameters | variables["learner"].buffers
        arrays = variables["learner"].state.values()
    shares = [a.to_local().untyped_storage().nbytes() for a in arrays if hasattr(a, "to_local")]
    whole = {name: a.full_tensor() if hasattr(a, "full_tensor") else a for name, a in values.items()}
    counted = (
        {"collectives": variables["communication"].get_total_counts()} if "communication" in variables else {}
    )
    return whole | counted | {"bytes": sum(shares)}


def run(cases: list[dict[str, Any]]) -> None:
    """Run the program of each case, and write its arrays to a folder of its name."""
    for case in cases:
        variables = {"torch": torch, "dist": dist, "net": emitted(case), "batches": batches(case["batches"])}
        Path(case["name"]).mkdir(exist_ok=True)
        os.chdir(case["name"])
        exec(case["program"], variables)
        np.savez(f"{dist.get_rank()}.npz", **results(variables))
        os.chdir("..")


def process(rank: int, folder: Path, count: int, cases: dict[str, list[dict[str, Any]]]) -> None:
    """Run the cases of all processes, and then those of two."""
    for of, size in (("all", count), ("two", 2)):
        if rank < size:
            os.chdir(folder / of)
            meeting = f"file://{folder}/{of}/meeting"
            dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size)
            run(cases[of])
            dist.destroy_process_group()


def main(folder: Path, count: int) -> None:
    """Start the processes. Forks need not import PyTorch again."""
    sys.path.insert(0, str(folder))
    torch.set_num_threads(1)
    cases = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    torch.multiprocessing.start_processes(process, (folder, count, cases), count, start_method="fork")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
