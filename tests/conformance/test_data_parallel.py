"""Data-parallel training on PyTorch: processes average gradients between the emitted `grads` and `update`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from catgrad import emit
from catgrad.learn.optimisers import adamw, clipped
from tests.conformance.c_models import MODELS
from tests.targets import cannot

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.skipif(
    bool(cannot("torch")) or not torch.distributed.is_gloo_available(), reason="PyTorch has no gloo"
)
COUNT = 2

PROGRAM = """
import sys

import numpy as np
import torch
import torch.distributed as dist

folder, rank, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sys.path.insert(0, folder)
import model

dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=count)
learner = model.Learner(seed=3)
with np.load(f"{folder}/batches.npz") as batches:
    for k in range(5):
        x, y = (torch.tensor(batches[f"{name}{k}"]).chunk(count)[rank] for name in "xy")
        loss, gradients = learner.grads(x, y)
        for gradient in gradients.values():
            dist.all_reduce(gradient.div_(count))
        learner.update(gradients)
np.savez(f"{folder}/{rank}.npz", **learner.parameters)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("name", ["mlp", "lstm"])
def test_processes_that_average_gradients_train_as_one(name, tmp_path):
    """The norm for clipping is that of the averaged gradients, as `update` computes it."""
    model, rng = MODELS[name], np.random.default_rng(0)
    artifact = emit(replace(model.task(), optimiser=clipped(adamw(0.01, epsilon=1e-3), 0.5)), "torch")
    (tmp_path / "model.py").write_text(artifact.source, encoding="utf-8")
    batches = [model.draw(rng, 4 * COUNT) for _ in range(5)]
    arrays = {f"{n}{k}": a for k, batch in enumerate(batches) for n, a in zip("xy", batch, strict=True)}
    np.savez(tmp_path / "batches.npz", **arrays)
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    processes = [subprocess.Popen([*command, str(rank), str(COUNT)]) for rank in range(COUNT)]
    learner = artifact.load()().learner(seed=3)
    for batch in batches:
        learner.step(*map(torch.tensor, batch))
    assert [process.wait() for process in processes] == [0] * COUNT
    for rank in range(COUNT):
        with np.load(tmp_path / f"{rank}.npz") as found:
            for key, array in learner.parameters.items():
                np.testing.assert_allclose(found[key], array, rtol=1e-4, atol=1e-6, err_msg=key)
