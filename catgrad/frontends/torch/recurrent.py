"""Recurrent layers as loops over time, in PyTorch's layout of weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from catgrad import ops
from catgrad.frontends.torch.contractions import linear
from catgrad.frontends.torch.registry import aten, require

State = tuple[Any, ...]
Turn = Callable[[Any, Any, State], State]
"""New state from a row x W + b, from h U + a, and from the old state; h comes first in it."""


def lstm_turn(row: Any, recurrent: Any, state: State) -> State:
    """c ← f · c + i · g, h ← o · tanh c."""
    i, f, g, o = ops.split(row + recurrent, [row.shape[-1] // 4] * 4, -1)
    c = ops.sigmoid(f) * state[1] + ops.sigmoid(i) * ops.tanh(g)
    return ops.sigmoid(o) * ops.tanh(c), c


def gru_turn(row: Any, recurrent: Any, state: State) -> State:
    """h ← (1 - z) · n + z · h."""
    (x_r, x_z, x_n), (h_r, h_z, h_n) = (ops.split(x, [x.shape[-1] // 3] * 3, -1) for x in (row, recurrent))
    r, z = ops.sigmoid(x_r + h_r), ops.sigmoid(x_z + h_z)
    n = ops.tanh(x_n + r * h_n)
    return (n + z * (state[0] - n),)


class Layout(NamedTuple):
    """How many layers there are, in which directions they run, and where the batch is."""

    has_biases: bool
    layers: int
    bidirectional: bool
    batch_first: bool


@aten("lstm.input")
def lstm(
    x: Any,
    first: Sequence[Any],
    weights: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """Long short-term memory: h at every time, then the last h and c of each layer and direction."""
    return _recurrent(
        lstm_turn, x, first, weights, Layout(has_biases, num_layers, bidirectional, batch_first)
    )


def _simple(overload: str, turn: Turn) -> None:
    @aten(overload)
    def recurrent(
        x: Any,
        first: Any,
        weights: Sequence[Any],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        layout = Layout(has_biases, num_layers, bidirectional, batch_first)
        return _recurrent(turn, x, (first,), weights, layout)


_simple("gru.input", gru_turn)
_simple("rnn_tanh.input", lambda row, recurrent, state: (ops.tanh(row + recurrent),))
_simple("rnn_relu.input", lambda row, recurrent, state: (ops.relu(row + recurrent),))


def _recurrent(turn: Turn, x: Any, first: Sequence[Any], weights: Sequence[Any], layout: Layout) -> Any:
    """Layers one after the other; x is [time, batch, features] inside."""
    directions, count = 1 + layout.bidirectional, 2 + 2 * layout.has_biases
    require(
        len(weights) == layout.layers * directions * count,
        "a recurrent layer must have two weights, and two biases or none, for each direction",
        f"there are {len(weights)} arrays for {layout.layers} layers",
        "leave out proj_size",
    )
    x = ops.permute(x, 1, 0, 2) if layout.batch_first else x
    last: list[State] = []
    for _ in range(layout.layers):
        rows = []
        for backwards in range(directions):
            k = len(last)
            begin = tuple(ops.reshape(_part(s, k), *s.shape[1:]) for s in first)
            end, hs = _one_way(turn, x, begin, weights[k * count : (k + 1) * count], bool(backwards))
            last.append(end)
            rows.append(hs)
        x = ops.concat(rows, -1)
    final = (ops.stack(states) for states in zip(*last, strict=True))
    return (ops.permute(x, 1, 0, 2) if layout.batch_first else x, *final)


def _one_way(turn: Turn, x: Any, begin: State, weights: Sequence[Any], backwards: bool) -> tuple[State, Any]:
    """One layer in one direction: the last state, and h at every time."""
    w, u, b, a = (*weights, None, None)[:4]
    rows = linear(x, w, b)

    def step(state: State, row: Any) -> tuple[State, Any]:
        new = turn(row, linear(state[0], u, a), state)
        return new, new[0]

    return ops.scan(step, begin, rows, backwards=backwards)


def _part(states: Any, k: int) -> Any:
    return ops.slice(states, (k, 0, 0), (1, *states.shape[1:]))
