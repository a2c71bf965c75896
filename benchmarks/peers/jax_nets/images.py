"""Convolutional networks: LeNet-5, ResNet-8, and chains of any convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax import Array, nn

from benchmarks.peers.jax_nets.dense import Arrays, Output, affine, perceptron

LAYOUTS = {3: ("NWC", "WIO", "NWC"), 4: ("NHWC", "HWIO", "NHWC")}


def convolved(
    x: Array, filters: Array, stride: int, padding: int, dilation: int = 1, groups: int = 1
) -> Array:
    """Return a convolution without a shift."""
    strides, margins, dilations = ([each] * (x.ndim - 2) for each in (stride, (padding, padding), dilation))
    return jax.lax.conv_general_dilated(
        x, filters, strides, margins, None, dilations, LAYOUTS[x.ndim], feature_group_count=groups
    )


def lenet(p: Arrays, m: Arrays, x: Array) -> Output:
    """LeNet-5."""
    for k, padding in enumerate((2, 0)):
        z = convolved(x, p[f"conv_{k}.weight"], 1, padding) + p[f"conv_{k}.bias"]
        n, h, w, c = z.shape
        x = nn.relu(z.reshape(n, h // 2, 2, w // 2, 2, c).max((2, 4)))
    flat = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
    return perceptron(p, m, flat, (400, 120, 84, 10), "relu", "identity")


def batch_norm(p: Arrays, m: Arrays, new: Arrays, name: str, z: Array, training: bool) -> Array:
    """Return the norm of a batch, or that by the running statistics."""
    mean, variance = m[f"{name}.mean"], m[f"{name}.variance"]
    if training:
        places = tuple(range(z.ndim - 1))
        now, spread, count = z.mean(places), z.var(places), z.size / z.shape[-1]
        new[f"{name}.mean"] = 0.9 * mean + 0.1 * now
        new[f"{name}.variance"] = 0.9 * variance + 0.1 * spread * count / (count - 1)
        mean, variance = now, spread
    scale = jax.lax.rsqrt(variance + 1e-5) * p[f"{name}.norm.weight"]
    return (z - mean) * scale + p[f"{name}.norm.bias"]


def normed(p: Arrays, m: Arrays, new: Arrays, name: str, x: Array, stride: int, training: bool) -> Array:
    """Return a convolution and its norm."""
    filters = p[f"{name}.conv.weight"]
    return batch_norm(p, m, new, name, convolved(x, filters, stride, filters.shape[0] // 2), training)


def resnet(p: Arrays, m: Arrays, x: Array, training: bool) -> Output:
    """ResNet-8."""
    new = dict(m)

    def layer(name: str, x: Array, stride: int) -> Array:
        return normed(p, m, new, name, x, stride, training)

    x = nn.relu(layer("stem", x, 1))
    for k, stride in enumerate((1, 2, 2)):
        z = nn.relu(layer(f"block_{k}.first", x, stride))
        short = layer(f"block_{k}.short", x, stride) if stride > 1 else x
        x = nn.relu(layer(f"block_{k}.second", z, 1) + short)
    return affine(p, "scores", x.mean((1, 2))), new


def convolutional(
    p: Arrays,
    m: Arrays,
    x: Array,
    stages: Sequence[dict[str, int]],
    normed: bool,
    training: bool,
    **sizes: Any,
) -> Output:
    """Chain of convolutions with ReLU, whose means over space a linear map takes."""
    new = dict(m)
    for k, stage in enumerate(stages):
        how, name = {key: stage.get(key, 1) for key in ("stride", "dilation", "groups")}, f"stage_{k}"
        z = convolved(x, p[f"{name}.conv.weight"], padding=how["dilation"] * (stage["size"] // 2), **how)
        z = batch_norm(p, m, new, name, z, training) if normed else z + p[f"{name}.conv.bias"]
        x = nn.relu(z)
    return affine(p, "scores", x.mean(tuple(range(1, x.ndim - 1)))), new
