"""Low-rank adapters (LoRA): training of them alone, and their files for llama.cpp.

Source: Hu et al. 2021 (arXiv:2106.09685); the format of files is that of llama.cpp's convert_lora_to_gguf.py
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from catgrad.errors import OptionError
from catgrad.formats import gguf
from catgrad.learn.learner import Learner
from catgrad.learn.optimiser import Optimiser, frozen, grouped
from catgrad.learn.options import positive
from catgrad.types import as_numpy

DOWN, UP = ".lora_a", ".lora_b"
"""Suffixes of an adapter's parameters: from inputs to the rank, and from the rank to outputs."""


def adapters_only(optimiser: Optimiser) -> Optimiser:
    """Train the adapters of `layers.lora` by this optimiser; all other parameters are frozen, without state.

    Raises: OptionError if it is clipped: write clipped(adapters_only(...), 1.0)
    """
    return grouped(lambda p: optimiser if p.name.endswith((DOWN, UP)) else frozen())


def save_adapters(
    learner: Learner,
    path: str | Path,
    alpha: float,
    architecture: str = "catgrad",
    names: Mapping[str, str] | None = None,
) -> None:
    """Write the adapters of a learner as a GGUF adapter, which llama.cpp adds to a base model.

    Tensors, of float32, are `<weight>.lora_a` [r, inputs] and `<weight>.lora_b` [outputs, r], where
    `<weight>` is the name of the base weight, such as `linear.weight`, or what `names` maps it to, such as
    `blk.0.attn_q.weight`. `architecture` must be that of the base model.

    Raises: OptionError unless there are adapters and α > 0; ArtifactError if the file cannot be written
    """
    arrays = {name: as_numpy(array).astype(np.float32) for name, array in learner.parameters.items()}
    tensors = {}
    for name in arrays:
        if name.endswith(DOWN):
            base = name.removesuffix(DOWN)
            down, up = arrays[name], arrays[base + UP]
            stored = (names or {}).get(f"{base}.weight", f"{base}.weight")
            tensors[stored + DOWN] = down.reshape(-1, down.shape[-1]).T
            tensors[stored + UP] = up.reshape(up.shape[0], -1).T
    if not tensors:
        raise OptionError(
            "a learner must have adapters to be saved", "it has none", "build its model with layers.lora"
        )
    keys = {gguf.ARCHITECTURE: architecture, "general.type": "adapter", "adapter.type": "lora"}
    gguf.write(path, tensors, {**keys, "adapter.lora.alpha": positive("alpha", alpha)})
