"""A vision transformer of PyTorch, imported, on handwritten digits.

    python -m catgrad.examples.vit --target torch

The module has the width, heads and depth of ViT-Tiny (Touvron et al. 2021, arXiv:2012.12877), and patches
of 2 × 2 pixels for images of 8 × 8. It trains on emitted code only, from the numbers that PyTorch drew, and
prints the accuracy on held-out digits. Needs the packages torch and scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import typer

from catgrad import Dim, Dtype, NdArrayType, Task, accuracy, emit, fit, losses, optimisers
from catgrad.learn.schedules import cosine

from .digits import TRAINING, load
from .options import Seed, Steps, Target, run

if TYPE_CHECKING:
    import torch

    from catgrad.frontends.torch import Imported

WIDTH, HEADS, DEPTH, PATCH = 192, 3, 12, 2
BATCH = 36
EPOCH = TRAINING // BATCH
"""Steps in which all digits are seen."""


def module(depth: int = DEPTH) -> torch.nn.Module:
    """Build the transformer: patches as tokens beside one for the class, encoder layers, and a linear map."""
    import torch
    from torch import nn

    class VisionTransformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(1, WIDTH, PATCH, PATCH)
            self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
            self.positions = nn.Parameter(0.02 * torch.randn(1, (8 // PATCH) ** 2 + 1, WIDTH))
            layer = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": True}
            self.layers = nn.ModuleList(
                nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, **layer) for _ in range(depth)
            )
            self.norm = nn.LayerNorm(WIDTH)
            self.scores = nn.Linear(WIDTH, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            tokens = self.patches(x).flatten(2).transpose(1, 2)
            tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), tokens], 1) + self.positions
            for layer in self.layers:
                tokens = layer(tokens)
            return self.scores(self.norm(tokens[:, 0]))

    return VisionTransformer()


def imported(depth: int = DEPTH, seed: int = 0) -> Imported:
    """Import the transformer, with weights that PyTorch draws from the seed."""
    import torch

    from catgrad.frontends.torch import from_torch

    torch.manual_seed(seed)
    return from_torch(module(depth), torch.zeros(BATCH, 1, 8, 8), name="vit", dynamic=("batch",))


def task(model: Imported, steps: int) -> Task:
    """Return the task of an imported transformer: AdamW with a cosine schedule, on cross entropy."""
    rate = cosine(1e-3, steps, warm_up=min(40, steps - 1), least=1e-5)
    labels = (NdArrayType((Dim("batch"),), Dtype.int64),)
    return model.task(optimisers.adamw(rate, weight_decay=0.05), losses.cross_entropy, labels)


def main(target: Target = "torch", steps: Steps = 10 * EPOCH, seed: Seed = 0) -> None:
    """Train an imported vision transformer on handwritten digits, on emitted source only."""
    x, y = load()
    learner = emit(task(imported(seed=seed), steps), target).load()().learner(seed)
    fit(learner, (x[:TRAINING], y[:TRAINING]), steps=steps, batch_size=BATCH, seed=seed)
    share = accuracy(np.asarray(learner.predict(x[TRAINING:])), y[TRAINING:])
    typer.echo(f"accuracy: {share:.1%} of {len(x) - TRAINING} digits not trained on")


if __name__ == "__main__":
    run(main)
