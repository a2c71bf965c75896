"""Recurrent layers as scans over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from catgrad import ops
from catgrad.dims import Size
from catgrad.frontends.onnx.registry import onnx, require
from catgrad.frontends.onnx.types import Value
from catgrad.learn.layers.recurrent import until_end
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

State = tuple[Var, ...]
Activation = Callable[[Var], Var]
Numbers = Sequence[float] | None

ACTIVATIONS: dict[str, Activation] = {
    "relu": ops.relu,
    "sigmoid": ops.sigmoid,
    "softplus": ops.softplus,
    "tanh": ops.tanh,
    "softsign": lambda x: x / (1 + ops.absolute(x)),
}

PARAMETRIC: dict[str, tuple[Callable[..., Var], tuple[float, ...]]] = {
    "affine": (lambda x, alpha, beta: alpha * x + beta, (1.0, 0.0)),
    "elu": (lambda x, alpha: ops.elu(x, alpha), (1.0,)),
    "hardsigmoid": (lambda x, alpha, beta: ops.clamp(alpha * x + beta, 0.0, 1.0), (0.2, 0.5)),
    "leakyrelu": (lambda x, alpha: ops.leaky_relu(x, alpha), (0.01,)),
    "scaledtanh": (lambda x, alpha, beta: alpha * ops.tanh(beta * x), (1.0, 1.0)),
    "thresholdedrelu": (lambda x, alpha: ops.select(x > alpha, x, ops.zeros_like(x)), (1.0,)),
}
"""Activations with α, or α and β, and these numbers where a layer gives none."""


class Weights(NamedTuple):
    """The arrays of one direction: for inputs, for the state, biases of both, and peepholes."""

    w: Var
    r: Var
    b: Var | None
    a: Var | None
    peepholes: Var | None


Cell = Callable[[Var, State, Weights], State]
"""A cell: from a row x Wᵀ + b and the state, whose first part is the output, to the next state."""


def _affine(x: Var, w: Var, b: Var | None) -> Var:
    y = ops.matmul(x, ops.transpose(w))
    return y if b is None else y + ops.broadcast_to(b, y.shape)


def _parts(x: Var, count: int, axis: int = -1) -> tuple[Var, ...]:
    axis = axis % x.type.rank
    return ops.split(x, [x.shape[axis] // count] * count, axis)


def _activations(
    names: list[str] | None, default: list[str], direction: str, alpha: Numbers, beta: Numbers
) -> list[Activation]:
    """Return the functions of all directions; those with numbers take the next of α and β, or their own."""
    every, numbers = {**ACTIVATIONS, **PARAMETRIC}, (iter(alpha or ()), iter(beta or ()))
    found: list[Activation] = []
    for name in [name.lower() for name in names or default * len(_directions(direction))]:
        require(name in every, f"an activation must be one of {', '.join(every)}", f"it is {name!r}")
        if name in ACTIVATIONS:
            found.append(ACTIVATIONS[name])
            continue
        function, usual = PARAMETRIC[name]
        given = [next(rest, number) for rest, number in zip(numbers, usual, strict=False)]
        found.append(partial(_applied, function, given))
    return found


def _applied(function: Callable[..., Var], numbers: Sequence[float], x: Var) -> Var:
    return function(x, *numbers)


def _simple(f: Activation) -> Cell:
    def cell(row: Var, state: State, weights: Weights) -> State:
        return (f(row + _affine(state[0], weights.r, weights.a)),)

    return cell


def _gru(f: Activation, g: Activation, linear_before_reset: int) -> Cell:
    def cell(row: Var, state: State, weights: Weights) -> State:
        (h,) = state
        (x_z, x_r, x_n), rows = _parts(row, 3), _parts(weights.r, 3, 0)
        biases = (None,) * 3 if weights.a is None else _parts(weights.a, 3)
        z = f(x_z + _affine(h, rows[0], biases[0]))
        r = f(x_r + _affine(h, rows[1], biases[1]))
        if linear_before_reset:
            n = g(x_n + r * _affine(h, rows[2], biases[2]))
        else:
            n = g(x_n + _affine(r * h, rows[2], biases[2]))
        return (n + z * (h - n),)

    return cell


def _lstm(f: Activation, g: Activation, output: Activation, input_forget: int) -> Cell:
    def cell(row: Var, state: State, weights: Weights) -> State:
        h, c = state
        i, o, forget, new = _parts(row + _affine(h, weights.r, weights.a), 4)
        if weights.peepholes is not None:
            p_i, p_o, p_f = (ops.broadcast_to(p, c.shape) for p in _parts(weights.peepholes, 3))
            i, forget = i + p_i * c, forget + p_f * c
        i = f(i)
        forget = 1 - i if input_forget else f(forget)
        c = forget * c + i * g(new)
        if weights.peepholes is not None:
            o = o + p_o * c
        return f(o) * output(c), c

    return cell


@onnx("RNN", since=(7, 14, 22), known="lengths")
def rnn(
    x: Var, w: Var, r: Var, b: Var | None = None, lengths: Value | None = None, h: Var | None = None, *,
    hidden_size: int = 0, activations: list[str] | None = None, activation_alpha: Numbers = None,
    activation_beta: Numbers = None, direction: str = "forward", layout: int = 0,
) -> tuple[Var, ...]:  # fmt: skip
    """Elman network: h ← f(x Wᵀ + h Rᵀ + b)."""
    functions = _activations(activations, ["Tanh"], direction, activation_alpha, activation_beta)
    return _recurrent([_simple(f) for f in functions], x, w, r, b, lengths, (h,), direction, layout)


@onnx("GRU", since=(7, 14, 22), known="lengths")
def gru(
    x: Var, w: Var, r: Var, b: Var | None = None, lengths: Value | None = None, h: Var | None = None, *,
    hidden_size: int = 0, activations: list[str] | None = None, activation_alpha: Numbers = None,
    activation_beta: Numbers = None, direction: str = "forward", layout: int = 0,
    linear_before_reset: int = 0,
) -> tuple[Var, ...]:  # fmt: skip
    """Gated recurrent units."""
    functions = _activations(activations, ["Sigmoid", "Tanh"], direction, activation_alpha, activation_beta)
    pairs = zip(functions[::2], functions[1::2], strict=True)
    cells = [_gru(f, g, linear_before_reset) for f, g in pairs]
    return _recurrent(cells, x, w, r, b, lengths, (h,), direction, layout)


@onnx("LSTM", since=(7, 14, 22), known="lengths")
def lstm(
    x: Var, w: Var, r: Var, b: Var | None = None, lengths: Value | None = None, h: Var | None = None,
    c: Var | None = None, p: Var | None = None, *, hidden_size: int = 0,
    activations: list[str] | None = None, activation_alpha: Numbers = None,
    activation_beta: Numbers = None, direction: str = "forward", layout: int = 0, input_forget: int = 0,
) -> tuple[Var, ...]:  # fmt: skip
    """Long short-term memory."""
    default = ["Sigmoid", "Tanh", "Tanh"]
    functions = _activations(activations, default, direction, activation_alpha, activation_beta)
    triples = zip(functions[::3], functions[1::3], functions[2::3], strict=True)
    cells = [_lstm(*three, input_forget) for three in triples]
    return _recurrent(cells, x, w, r, b, lengths, (h, c), direction, layout, p)


def _directions(direction: str) -> list[bool]:
    """Return, for each direction, whether it goes backwards."""
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]


def _recurrent(
    cells: Sequence[Cell], x: Var, w: Var, r: Var, b: Var | None, lengths: Value | None,
    first: tuple[Var | None, ...], direction: str, layout: int, peepholes: Var | None = None,
) -> tuple[Var, ...]:  # fmt: skip
    """Run a cell in each direction; return the outputs at every time, then the last states."""
    x = ops.permute(x, 1, 0, 2) if layout else x
    steps, batch, _ = x.shape
    masks = _masks(lengths, steps)
    every: list[Var] = []
    last: list[State] = []
    for k, (cell, backwards) in enumerate(zip(cells, _directions(direction), strict=True)):
        weights = _of_direction(k, w, r, b, peepholes)
        zeros = Constant(NdArrayType((batch, weights.r.shape[1]), x.dtype), 0)()
        begin = tuple(
            zeros if s is None else _row(ops.permute(s, 1, 0, 2) if layout else s, k) for s in first
        )
        rows = (_affine(x, weights.w, weights.b), *masks)
        end, ys = ops.scan(_iteration(cell, weights), begin, rows, backwards=backwards)
        every.append(ys)
        last.append(end)
    states = [ops.stack(parts) for parts in zip(*last, strict=True)]
    y = ops.stack(every, 1)
    if layout:
        return ops.permute(y, 2, 0, 1, 3), *(ops.permute(s, 1, 0, 2) for s in states)
    return y, *states


def _masks(lengths: Value | None, steps: Size) -> list[Var]:
    """Return the mask [time, batch] of sequences, unless all have one length."""
    if lengths is None or (isinstance(lengths, np.ndarray) and all(n == steps for n in lengths)):
        return []
    numbers = ops.array(lengths, Dtype.int64) if isinstance(lengths, np.ndarray) else lengths
    return [ops.transpose(ops.sequence_mask(numbers, steps))]


def _iteration(cell: Cell, weights: Weights) -> Callable[[State, State], tuple[State, Var]]:
    """Return the body of a scan, up to the end of a sequence: the next state, and its first part as a row."""

    def iteration(state: State, row: State) -> tuple[State, Var]:
        gates, *exists = row
        new = cell(gates, state, weights)
        return until_end((new, new[0]), state, *exists)

    return iteration


def _row(x: Var, k: int) -> Var:
    """Return one direction of an array."""
    block = ops.slice(x, [k] + [0] * (x.type.rank - 1), [1, *x.shape[1:]])
    return ops.reshape(block, *x.shape[1:])


def _of_direction(k: int, w: Var, r: Var, b: Var | None, peepholes: Var | None) -> Weights:
    bias, recurrent = (None, None) if b is None else _parts(_row(b, k), 2)
    peephole = None if peepholes is None else _row(peepholes, k)
    return Weights(_row(w, k), _row(r, k), bias, recurrent, peephole)
