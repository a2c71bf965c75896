"""A network of PyTorch, fine-tuned by an emitted C program, and taken back to PyTorch.

    python -m catgrad.examples.torch_finetune

A convolutional network with batch norm learns the digits 0 to 4 in PyTorch. One call compiles it with its
training step to C. The program alone, without Python, goes on with 5 to 9 and half of the others, so that it
does not forget these, and PyTorch loads its weights. Prints the accuracy on held-out digits before and after,
on both sides. Needs torch, scikit-learn, gcc and make.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from catgrad import accuracy, compile_module, optimisers
from catgrad.errors import ToolError
from catgrad.formats import safetensors
from catgrad.learn.fit import checkpoint

from .digits import TRAINING, load
from .options import Seed, run

if TYPE_CHECKING:
    import torch

BATCH = 50


def network() -> torch.nn.Module:
    """Build the network: two convolutions with batch norm, and a linear map."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def train_in_pytorch(module: torch.nn.Module, x: np.ndarray, y: np.ndarray, epochs: int) -> None:
    """Train a module by PyTorch, as usual."""
    import torch

    optimiser = torch.optim.AdamW(module.parameters(), 3e-3)
    images, digits = torch.from_numpy(x), torch.from_numpy(y)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(BATCH):
            loss = torch.nn.functional.cross_entropy(module(images[batch]), digits[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()


def share_in_pytorch(module: torch.nn.Module, x: np.ndarray, y: np.ndarray) -> float:
    """Return the share of digits that a module tells."""
    import torch

    with torch.no_grad():
        return accuracy(module.eval()(torch.from_numpy(x)).numpy(), y)


def fine_tuned(learner: Any, x: np.ndarray, y: np.ndarray, folder: Path, epochs: int, seed: int) -> Path:
    """Write the program with its weights and data, build it and run it; return its file of weights."""
    learner.artifact.write(folder)
    safetensors.write(folder / "data.safetensors", {"x": x, "y": y})
    for command in ("make -s", f"./train --epochs {epochs} --batch {BATCH} --seed {seed}"):
        typer.echo(f"$ {command}")
        if code := subprocess.run(shlex.split(command), cwd=folder, check=False).returncode:
            raise ToolError("a command must succeed", f"`{command}` ends with {code}", "read what it says")
    return folder / "weights.safetensors"


def main(
    epochs: Annotated[int, typer.Option(min=1, help="How many epochs to train, on each side.")] = 8,
    folder: Annotated[Path | None, typer.Option(help="Keep the emitted program here.")] = None,
    seed: Seed = 0,
) -> None:
    """Train in PyTorch, fine-tune in C, and compare on held-out digits."""
    import torch

    x, y = load()
    (images, digits), (held_x, held_y) = (x[:TRAINING], y[:TRAINING]), (x[TRAINING:], y[TRAINING:])
    torch.manual_seed(seed)
    module = network()
    first, held_first = digits < 5, held_y < 5
    train_in_pytorch(module, images[first], digits[first], epochs)

    learner = compile_module(
        module,
        torch.zeros(BATCH, 1, 8, 8),
        optimisers.adamw(3e-3),
        torch.nn.CrossEntropyLoss(),
        "c",
        name="digits",
    )
    for name, part in (("0 to 4", held_first), ("5 to 9", ~held_first)):
        typer.echo(f"PyTorch, of {name}: {share_in_pytorch(module, held_x[part], held_y[part]):.1%}")
    with TemporaryDirectory() as temporary:
        chosen = ~first | (np.arange(len(digits)) % 2 == 0)
        weights = fine_tuned(learner, images[chosen], digits[chosen], folder or Path(temporary), epochs, seed)
        checkpoint.load(learner, weights)
    module.load_state_dict(learner.state_dict())
    typer.echo(f"C, of all: {accuracy(np.asarray(learner.predict(held_x)), held_y):.1%}")
    typer.echo(f"PyTorch with the weights from C: {share_in_pytorch(module, held_x, held_y):.1%}")


if __name__ == "__main__":
    run(main)
