"""The program to build: the emitted library, and a main file that calls it."""

from __future__ import annotations

import json
from pathlib import Path

import jinja2
import numpy as np

from catgrad import NdArrayType, Task, emit, layers, mse, sgd

from .. import iris

FLOWERS, BATCH, HIDDEN = 150, 10, 20


def task() -> Task:
    """Two dense layers on batches of a fixed size, so that the workspace has a constant size."""
    batch, features, hidden, species = (NdArrayType((n,)) for n in (BATCH, 4, HIDDEN, 3))
    model = layers.dense(batch, features, hidden) >> layers.dense(batch, hidden, species)
    return Task(model, sgd(5.0), mse, "iris")


def write(folder: Path, epochs: int, seed: int, weights: Path | None = None) -> None:
    """Write the library and the program, which starts with random parameters or those of a file."""
    artifact = emit(task(), "c", weights=str(weights or ""))
    artifact.write(folder)
    told = json.loads(artifact.files["manifest.json"])
    x, y = iris.load()
    order = np.random.default_rng(seed).permutation(len(x))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    text = environment.get_template("main.c.j2").render(
        told=told,
        has_weights=weights is not None,
        p=told["prefix"],
        batch=BATCH,
        epochs=epochs,
        seed=seed,
        features=x[order].tolist(),
        species=y[order].argmax(axis=1).tolist(),
        workspace=max(int(f["workspace_bytes"]) for f in told["functions"]),
    )
    (folder / "main.c").write_text(text, encoding="utf-8")
