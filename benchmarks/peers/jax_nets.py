"""The models of `benchmarks.nets` in JAX: functions of parameters, buffers and x to scores and new buffers.

Images have their channels last and filters theirs too, which is what XLA is fastest with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import nn

Arrays = dict[str, Any]


def product(x: Any, weight: Any) -> Any:
    """x · W, with all axes but the last as one: XLA's reverse of it is faster so."""
    return (x.reshape(-1, x.shape[-1]) @ weight).reshape(*x.shape[:-1], -1)


def affine(p: Arrays, name: str, x: Any) -> Any:
    """Return a linear map and a shift."""
    return product(x, p[f"{name}.weight"]) + p[f"{name}.bias"]


def perceptron(p: Arrays, m: Arrays, x: Any, widths: Sequence[int], activation: str, last: str) -> Any:
    """Dense layers with an activation after each."""
    for k, name in enumerate([activation] * (len(widths) - 2) + [last]):
        x = getattr(nn, name)(affine(p, f"dense_{k}", x))
    return x, m


def convolved(x: Any, filters: Any, stride: int, padding: int) -> Any:
    """Return a convolution without a shift."""
    margins, layout = [(padding, padding)] * 2, ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, filters, (stride, stride), margins, dimension_numbers=layout)


def lenet(p: Arrays, m: Arrays, x: Any) -> Any:
    """LeNet-5."""
    for k, padding in enumerate((2, 0)):
        z = convolved(x, p[f"conv_{k}.weight"], 1, padding) + p[f"conv_{k}.bias"]
        n, h, w, c = z.shape
        x = nn.relu(z.reshape(n, h // 2, 2, w // 2, 2, c).max((2, 4)))
    flat = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
    return perceptron(p, m, flat, (400, 120, 84, 10), "relu", "identity")


def normed(p: Arrays, m: Arrays, new: Arrays, name: str, x: Any, stride: int, training: bool) -> Any:
    """Return a convolution and the norm of its batch, or of the running statistics."""
    filters = p[f"{name}.conv.weight"]
    z = convolved(x, filters, stride, filters.shape[0] // 2)
    mean, variance = m[f"{name}.mean"], m[f"{name}.variance"]
    if training:
        now, spread, count = z.mean((0, 1, 2)), z.var((0, 1, 2)), z.size / z.shape[-1]
        new[f"{name}.mean"] = 0.9 * mean + 0.1 * now
        new[f"{name}.variance"] = 0.9 * variance + 0.1 * spread * count / (count - 1)
        mean, variance = now, spread
    scale = jax.lax.rsqrt(variance + 1e-5) * p[f"{name}.norm.weight"]
    return (z - mean) * scale + p[f"{name}.norm.bias"]


def resnet(p: Arrays, m: Arrays, x: Any, training: bool) -> Any:
    """ResNet-8."""
    new = dict(m)

    def layer(name: str, x: Any, stride: int) -> Any:
        return normed(p, m, new, name, x, stride, training)

    x = nn.relu(layer("stem", x, 1))
    for k, stride in enumerate((1, 2, 2)):
        z = nn.relu(layer(f"block_{k}.first", x, stride))
        short = layer(f"block_{k}.short", x, stride) if stride > 1 else x
        x = nn.relu(layer(f"block_{k}.second", z, 1) + short)
    return affine(p, "scores", x.mean((1, 2))), new


def layer_norm(p: Arrays, name: str, x: Any) -> Any:
    """Normalised features, scaled and shifted."""
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def attention(p: Arrays, name: str, x: Any, heads: int) -> Any:
    """Causal attention of all heads."""
    n, t, d = x.shape
    parts = jnp.split(affine(p, f"{name}.in_proj", x), 3, -1)
    q, k, v = (part.reshape(n, t, heads, -1).transpose(0, 2, 1, 3) for part in parts)
    scores = q @ k.transpose(0, 1, 3, 2) / (d // heads) ** 0.5
    weights = nn.softmax(jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf))
    return affine(p, f"{name}.out_proj", (weights @ v).transpose(0, 2, 1, 3).reshape(n, t, d))


def gpt(p: Arrays, m: Arrays, x: Any, depth: int, heads: int, **sizes: int) -> Any:
    """Embeddings, blocks, a norm and a linear map, which may be the embedding's."""
    x = p["characters.weight"][x] + p["positions.weight"]
    for k in range(depth):
        name = f"block_{k}"
        x = x + attention(p, f"{name}.self_attn", layer_norm(p, f"{name}.norm1", x), heads)
        z = nn.gelu(affine(p, f"{name}.linear1", layer_norm(p, f"{name}.norm2", x)), approximate=True)
        x = x + affine(p, f"{name}.linear2", z)
    scores = p["scores.weight"] if "scores.weight" in p else p["characters.weight"].T
    return product(layer_norm(p, "norm", x), scores), m


NETS: dict[str, Callable[..., Any]] = {
    "perceptron": perceptron, "lenet": lenet, "resnet": resnet, "gpt": gpt, "tied_gpt": gpt,
}  # fmt: skip
