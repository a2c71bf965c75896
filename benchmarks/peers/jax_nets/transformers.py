"""Models of sequences of tokens: GPT, vision transformer, and MLP-Mixer."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, nn

from benchmarks.peers.jax_nets.dense import Arrays, Output, affine, product
from benchmarks.peers.jax_nets.images import convolved


def layer_norm(p: Arrays, name: str, x: Array) -> Array:
    """Normalised features, scaled and shifted."""
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def attention(p: Arrays, name: str, x: Array, heads: int, causal: bool) -> Array:
    """Attention of all heads."""
    n, t, d = x.shape
    parts = jnp.split(affine(p, f"{name}.in_proj", x), 3, -1)
    q, k, v = (part.reshape(n, t, heads, -1).transpose(0, 2, 1, 3) for part in parts)
    scores = q @ k.transpose(0, 1, 3, 2) / (d // heads) ** 0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
    weights = nn.softmax(scores)
    return affine(p, f"{name}.out_proj", (weights @ v).transpose(0, 2, 1, 3).reshape(n, t, d))


def two_layers(p: Arrays, name: str, x: Array, approximate: bool = False) -> Array:
    """Perceptron with one hidden layer and GELU."""
    return affine(p, f"{name}.linear2", nn.gelu(affine(p, f"{name}.linear1", x), approximate))


def block(p: Arrays, name: str, x: Array, heads: int, causal: bool) -> Array:
    """X after attention and a perceptron; causal ones approximate GELU by tanh."""
    x = x + attention(p, f"{name}.self_attn", layer_norm(p, f"{name}.norm1", x), heads, causal)
    return x + two_layers(p, name, layer_norm(p, f"{name}.norm2", x), approximate=causal)


def gpt(p: Arrays, m: Arrays, x: Array, depth: int, heads: int, **sizes: int) -> Output:
    """Embeddings, blocks, a norm and a linear map, which may be the embedding's."""
    x = p["characters.weight"][x] + p["positions.weight"]
    for k in range(depth):
        x = block(p, f"block_{k}", x, heads, causal=True)
    scores = p["scores.weight"] if "scores.weight" in p else p["characters.weight"].T
    return product(layer_norm(p, "norm", x), scores), m


def patches(p: Arrays, x: Array, patch: int) -> Array:
    """Rows of features, a linear map of each patch of an image."""
    z = convolved(x, p["patches.weight"], patch, 0) + p["patches.bias"]
    return z.reshape(len(z), -1, z.shape[-1])


def vit(p: Arrays, m: Arrays, x: Array, patch: int, depth: int, heads: int, **sizes: int) -> Output:
    """Vision transformer: patches, blocks, a norm, and a linear map of the mean of all tokens."""
    z = patches(p, x, patch) + p["positions.weight"]
    for k in range(depth):
        z = block(p, f"block_{k}", z, heads, causal=False)
    return affine(p, "scores", layer_norm(p, "norm", z).mean(1)), m


def mixer(p: Arrays, m: Arrays, x: Array, patch: int, depth: int, **sizes: Any) -> Output:
    """MLP-Mixer: perceptrons over tokens and over features in turns."""
    z = patches(p, x, patch)
    for k in range(depth):
        name = f"block_{k}"
        across = layer_norm(p, f"{name}.norm1", z).transpose(0, 2, 1)
        z = z + two_layers(p, f"{name}.tokens", across).transpose(0, 2, 1)
        z = z + two_layers(p, f"{name}.features", layer_norm(p, f"{name}.norm2", z))
    return affine(p, "scores", layer_norm(p, "norm", z).mean(1)), m
