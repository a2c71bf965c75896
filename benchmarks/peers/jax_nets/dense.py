"""Linear maps, perceptrons, and a recommender: embedding tables before a perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array, nn

Arrays = dict[str, Any]
Output = tuple[Array, Arrays]
"""The scores of a net, and its buffers after the batch."""


def product(x: Array, weight: Array) -> Array:
    """x · W, with all axes but the last as one: XLA's reverse of it is faster so."""
    return (x.reshape(-1, x.shape[-1]) @ weight).reshape(*x.shape[:-1], -1)


def affine(p: Arrays, name: str, x: Array) -> Array:
    """Return a linear map and a shift."""
    return product(x, p[f"{name}.weight"]) + p[f"{name}.bias"]


def perceptron(p: Arrays, m: Arrays, x: Array, widths: Sequence[int], activation: str, last: str) -> Output:
    """Dense layers with an activation after each."""
    for k, name in enumerate([activation] * (len(widths) - 2) + [last]):
        x = getattr(nn, name)(affine(p, f"dense_{k}", x))
    return x, m


def recommender(
    p: Arrays, m: Arrays, x: Array, fields: int, widths: Sequence[int], width: int, **sizes: int
) -> Output:
    """A table of rows for each field, and a perceptron of the rows that x selects."""
    rows = jnp.concatenate([p[f"table_{k}.weight"][x[:, k]] for k in range(fields)], 1)
    return perceptron(p, m, rows, (fields * width, *widths), "relu", "identity")
