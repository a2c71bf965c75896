"""Recurrent networks: layers of LSTM or GRU, and scores at every time."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, nn

from benchmarks.peers.jax_nets.dense import Arrays, Output, affine, product

State = tuple[Array, ...]


def lstm(x: Array, h: Array, state: State) -> State:
    """Return the new state, h and c, from the parts of x and of h."""
    i, f, g, o = jnp.split(x + h, 4, -1)
    c = nn.sigmoid(f) * state[1] + nn.sigmoid(i) * jnp.tanh(g)
    return nn.sigmoid(o) * jnp.tanh(c), c


def gru(x: Array, h: Array, state: State) -> State:
    """Return the new state from the parts of x and of h."""
    (x_r, x_z, x_n), (h_r, h_z, h_n) = jnp.split(x, 3, -1), jnp.split(h, 3, -1)
    z = nn.sigmoid(x_z + h_z)
    return ((1 - z) * jnp.tanh(x_n + nn.sigmoid(x_r + h_r) * h_n) + z * state[0],)


CELLS = {"lstm": (lstm, 2), "gru": (gru, 1)}
"""The cell of each kind, and the number of arrays in its state."""


def recurrent(p: Arrays, m: Arrays, x: Array, kind: str, depth: int, width: int, **sizes: int) -> Output:
    """Layers of one kind and a linear map of their states; products with x are made for all times at once."""
    cell, count = CELLS[kind]
    for k in range(depth):
        name = f"layer_{k}"
        u, shift = p[f"{name}.weight_hh_l0"], p[f"{name}.bias_hh_l0"]
        rows = product(x, p[f"{name}.weight_ih_l0"]) + p[f"{name}.bias_ih_l0"]

        def turn(state: State, row: Array, u: Array = u, shift: Array = shift) -> tuple[State, Array]:
            state = cell(row, state[0] @ u + shift, state)
            return state, state[0]

        first = (jnp.zeros((len(x), width)),) * count
        x = jax.lax.scan(turn, first, rows.swapaxes(0, 1))[1].swapaxes(0, 1)
    return affine(p, "scores", x), m
