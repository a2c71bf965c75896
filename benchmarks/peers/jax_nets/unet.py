"""U-Net: convolutions at several scales, down and up, with the larger scale joined on the way up."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array, nn

from benchmarks.peers.jax_nets.dense import Arrays, Output
from benchmarks.peers.jax_nets.images import LAYOUTS, convolved


def unet(p: Arrays, m: Arrays, x: Array, widths: Sequence[int], side: int) -> Output:
    """U-Net for images of one channel, with one scale for each width."""

    def shifted(name: str, x: Array, padding: int = 1) -> Array:
        return convolved(x, p[f"{name}.weight"], 1, padding) + p[f"{name}.bias"]

    def twice(name: str, x: Array) -> Array:
        return nn.relu(shifted(f"{name}.second", nn.relu(shifted(f"{name}.first", x))))

    def doubled(name: str, x: Array) -> Array:
        filters = p[f"{name}.weight"]
        y = jax.lax.conv_transpose(
            x, filters, (2, 2), "VALID", dimension_numbers=LAYOUTS[4], transpose_kernel=True
        )
        return y + p[f"{name}.bias"]

    kept = []
    for k in range(len(widths)):
        if k:
            n, h, w, c = x.shape
            x = x.reshape(n, h // 2, 2, w // 2, 2, c).max((2, 4))
        x = twice(f"down_{k}", x)
        kept.append(x)
    for k in reversed(range(len(widths) - 1)):
        x = twice(f"merge_{k}", jnp.concatenate([kept[k], doubled(f"up_{k}", x)], -1))
    return shifted("scores", x, 0).transpose(0, 3, 1, 2), m
