"""Recurrent layers as scans over time, with PyTorch's layout of weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from catgrad import ops
from catgrad.frontends.torch.aten.contractions import linear
from catgrad.frontends.torch.aten.randomness import dropped
from catgrad.frontends.torch.registry import aten, register, require
from catgrad.learn.layers.recurrent import Cell, State, gru_cell, lstm_cell, rnn_cell, until_end
from catgrad.terms.var import Var


class Layout(NamedTuple):
    """The numbers of layers and directions, the position of the batch axis, and dropout between layers."""

    has_biases: bool
    layers: int
    bidirectional: bool
    batch_first: bool
    dropout: float


def _register(overload: str, cell: Cell) -> None:
    """Register a recurrent layer: h at every time, then the last states of each layer and direction."""

    @aten(overload, is_random=True)
    def recurrent(
        x: Var,
        first: Var | Sequence[Var],
        weights: Sequence[Var],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Var, ...]:
        layout = Layout(has_biases, num_layers, bidirectional, batch_first, dropout if train else 0)
        return _recurrent(cell, x, (first,) if isinstance(first, Var) else first, weights, layout)


CELLS = {"lstm": lstm_cell, "gru": gru_cell, "rnn_tanh": rnn_cell(ops.tanh), "rnn_relu": rnn_cell(ops.relu)}
"""Cells by the names of PyTorch's functions."""

for _kind, _cell in CELLS.items():
    _register(f"{_kind}.input", _cell)


def of_any_length(
    x: Var,
    lengths: Var | None,
    first: Sequence[Var],
    weights: Sequence[Var],
    kind: str,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> list[Var]:
    """Recurrent layers over sequences, of given lengths: h at every time, 0 beyond, and the last states."""
    layout = Layout(has_biases, num_layers, bidirectional, False, dropout if train else 0)
    masks = [] if lengths is None else [ops.transpose(ops.sequence_mask(lengths, x.shape[0]))]
    return list(_recurrent(CELLS[kind], x, first, weights, layout, masks))


register("catgrad.recurrent.default", real=of_any_length, is_random=True)


def _recurrent(
    cell: Cell,
    x: Var,
    first: Sequence[Var],
    weights: Sequence[Var],
    layout: Layout,
    masks: Sequence[Var] = (),
) -> tuple[Var, ...]:
    """Apply layers in sequence; x is [time, batch, features] inside, and a mask [time, batch]."""
    directions, count = 1 + layout.bidirectional, 2 + 2 * layout.has_biases
    require(
        len(weights) == layout.layers * directions * count,
        "a recurrent layer must have two weights, and two biases or none, for each direction",
        f"there are {len(weights)} arrays for {layout.layers} layers",
        "leave out proj_size",
    )
    x = ops.permute(x, 1, 0, 2) if layout.batch_first else x
    last: list[State] = []
    for layer in range(layout.layers):
        x = dropped(x, layout.dropout, f"dropout_{layer}") if layer else x
        rows = []
        for backwards in range(directions):
            k = len(last)
            begin = tuple(
                ops.reshape(ops.slice(s, (k, 0, 0), (1, *s.shape[1:])), *s.shape[1:]) for s in first
            )
            own = weights[k * count : (k + 1) * count]
            end, hs = _one_direction(cell, x, begin, own, bool(backwards), masks)
            last.append(end)
            rows.append(hs)
        x = ops.concat(rows, -1)
    final = (ops.stack(states) for states in zip(*last, strict=True))
    return (ops.permute(x, 1, 0, 2) if layout.batch_first else x, *final)


def _one_direction(
    cell: Cell, x: Var, begin: State, weights: Sequence[Any], backwards: bool, masks: Sequence[Var]
) -> tuple[State, Var]:
    """Apply one layer in one direction; return the last state, and h at every time."""
    w, u, b, a = (*weights, None, None)[:4]

    def iteration(state: State, row: Sequence[Var]) -> tuple[State, Var]:
        gates, *exists = row
        return until_end(cell(gates, lambda h: linear(h, u, a), state), state, *exists)

    return ops.scan(iteration, begin, (linear(x, w, b), *masks), backwards=backwards)
