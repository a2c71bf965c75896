"""Recurrent layers: Elman network, LSTM and GRU, as loops over time, up to the end of each sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from catgrad import ops
from catgrad.errors import ShapeError
from catgrad.initialisers import Initial, chosen, fan_in_uniform
from catgrad.learn.layers.arguments import checked
from catgrad.learn.layers.parts import Activation, copies, label, parameter, tanh, types_of_lengths
from catgrad.terms.build import build
from catgrad.terms.op import scope
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import NdArrayType

Recurrent = Callable[[Var], Var]
State = tuple[Var, ...]
Cell = Callable[[Var, Recurrent, State], tuple[State, Var]]
"""A cell: from a row x W + b, the function h ↦ h U + a and the state, to the next state and row."""


class Kind(NamedTuple):
    """A cell, the number of its gates, and that of the arrays of its state."""

    cell: Cell
    gates: int
    carried: int


def rnn_cell(activation: Callable[[Var], Var]) -> Cell:
    """Elman cell: h ← σ(x W + b + h U + a)."""

    def cell(gates: Var, recurrent: Recurrent, state: State) -> tuple[State, Var]:
        h = label("new_h", activation(gates + recurrent(label("h", state[0]))))
        return (h,), h

    return cell


def lstm_cell(gates: Var, recurrent: Recurrent, state: State) -> tuple[State, Var]:
    """LSTM cell: c ← f · c + i · g and h ← o · tanh c, with i, f, g and o from gates + recurrent(h)."""
    h, c = label("h", state[0]), label("c", state[1])
    parts = _parts(gates + recurrent(h), 4)
    squashed = (ops.sigmoid, ops.sigmoid, ops.tanh, ops.sigmoid)
    i, f, g, o = (label(n, s(part)) for n, s, part in zip("ifgo", squashed, parts, strict=True))
    c = label("new_c", f * c + i * g)
    h = label("new_h", o * label("tanh_c", ops.tanh(c)))
    return (h, c), h


def gru_cell(gates: Var, recurrent: Recurrent, state: State) -> tuple[State, Var]:
    """GRU cell: h ← (1 - z) · n + z · h, with r, z and n from the gates and recurrent(h)."""
    h = label("h", state[0])
    (x_r, x_z, x_n), (h_r, h_z, h_n) = _parts(gates, 3), _parts(recurrent(h), 3)
    r, z = label("r", ops.sigmoid(x_r + h_r)), label("z", ops.sigmoid(x_z + h_z))
    n = label("n", ops.tanh(x_n + r * h_n))
    h = label("new_h", n + z * (h - n))
    return (h,), h


def until_end(after: tuple[State, Var], before: State, exists: Var | None = None) -> tuple[State, Var]:
    """Keep the state before an iteration, and give 0 in place of its row, where a sequence has ended."""
    if exists is None:
        return after
    state, row = after
    own = ops.broadcast(exists, row.shape, [1])
    kept = tuple(ops.select(own, new, old) for new, old in zip(state, before, strict=True))
    return kept, ops.select(own, row, zeros_like(row))


@checked
def rnn(
    A: NdArrayType,
    B: NdArrayType,
    C: NdArrayType,
    name: str = "rnn",
    initial: Initial | None = None,
    activation: Activation = tanh,
    lengths: bool = False,
) -> Term:
    """Elman network: h ← σ(x W + b + h U + a), from 0 on, for each position.

    The first axis of A is that of the batch, the second that of time. With `lengths`, sequences end, as in
    `lstm`.

    Type:       A + B -> A + C, with lengths (A + B, i64[N]) -> A + C, for A = [N, T], B = [d] and C = [h]:
                h at every time, with the parameters
                `<name>.weight_ih_l0 : [d, h]` W, `<name>.weight_hh_l0 : [h, h]` U,
                `<name>.bias_ih_l0 : [h]` b and `<name>.bias_hh_l0 : [h]` a
    Initial:    all U(-1/√h, 1/√h), as in torch.nn.RNN
    Raises:     ShapeError if A has not two axes, or B or C not one
    Source:     Elman 1990, Finding structure in time, as in torch.nn.RNN with batch_first
    """
    cell = rnn_cell(lambda x: activation([x.type]).apply(x)[0])
    return _recurrent(A, B, C, Kind(cell, 1, 1), name, initial, lengths)


@checked
def lstm(
    A: NdArrayType,
    B: NdArrayType,
    C: NdArrayType,
    name: str = "lstm",
    initial: Initial | None = None,
    lengths: bool = False,
) -> Term:
    """Long short-term memory: c ← f · c + i · g, h ← o · tanh c, from 0 on, for each position.

    i, f, o = σ(…) and g = tanh(…) are, in the order i, f, g, o, parts of x W + b + h U + a. The first
    axis of A is that of the batch, the second that of time.

    With `lengths`, a second input, whole numbers n : [N], each sequence ends after n elements: beyond, the
    result is 0, and padding, which must be finite, changes nothing, as in packed sequences of PyTorch.

    Type:       A + B -> A + C, with lengths (A + B, i64[N]) -> A + C, for A = [N, T], B = [d] and C = [h]:
                h at every time, with the parameters
                `<name>.weight_ih_l0 : [d, 4h]` W, `<name>.weight_hh_l0 : [h, 4h]` U,
                `<name>.bias_ih_l0 : [4h]` b and `<name>.bias_hh_l0 : [4h]` a
    Initial:    all U(-1/√h, 1/√h), as in torch.nn.LSTM
    Raises:     ShapeError if A has not two axes, or B or C not one
    Source:     Hochreiter and Schmidhuber 1997, as in torch.nn.LSTM with batch_first
    """
    return _recurrent(A, B, C, Kind(lstm_cell, 4, 2), name, initial, lengths)


@checked
def gru(
    A: NdArrayType,
    B: NdArrayType,
    C: NdArrayType,
    name: str = "gru",
    initial: Initial | None = None,
    lengths: bool = False,
) -> Term:
    """Gated recurrent unit: h ← (1 - z) · n + z · h, from 0 on, for each position.

    r, z = σ(…) are, in this order, the first parts of x W + b + h U + a, and n is
    tanh(x Wₙ + bₙ + r · (h Uₙ + aₙ)). The first axis of A is that of the batch, the second that of time.
    With `lengths`, sequences end, as in `lstm`.

    Type:       A + B -> A + C, with lengths (A + B, i64[N]) -> A + C, for A = [N, T], B = [d] and C = [h]:
                h at every time, with the parameters
                `<name>.weight_ih_l0 : [d, 3h]` W, `<name>.weight_hh_l0 : [h, 3h]` U,
                `<name>.bias_ih_l0 : [3h]` b and `<name>.bias_hh_l0 : [3h]` a
    Initial:    all U(-1/√h, 1/√h), as in torch.nn.GRU
    Raises:     ShapeError if A has not two axes, or B or C not one
    Source:     Cho et al. 2014 (arXiv:1406.1078), as in torch.nn.GRU with batch_first
    """
    return _recurrent(A, B, C, Kind(gru_cell, 3, 1), name, initial, lengths)


def _parts(x: Var, count: int) -> tuple[Var, ...]:
    """Split the last axis into `count` equal parts."""
    return ops.split(x, (x.shape[-1] // count,) * count, -1)


def _recurrent(
    A: NdArrayType,
    B: NdArrayType,
    C: NdArrayType,
    kind: Kind,
    name: str,
    initial: Initial | None,
    lengths: bool,
) -> Term:
    """Compute the product with x for all times, then loop over time."""
    _require_axes(name, A, B, C)
    wide = C.with_shape((kind.gates * C.shape[0],))
    uniform = fan_in_uniform(C.shape[0])

    def weight(part: str, source: NdArrayType) -> Var:
        first = uniform if initial is None else chosen(initial, source.size, wide.size)
        return parameter(f"weight_{part}_l0", source + wide, first)

    def forward(x: Var, *ends: Var) -> Var:
        w, u = weight("ih", B), weight("hh", C)
        b, a = (parameter(f"bias_{part}_l0", wide, uniform) for part in ("ih", "hh"))
        rows = ops.permute(x @ w + copies(b, A + wide), 1, 0, 2)
        masks = [ops.transpose(ops.sequence_mask(n, A.shape[1])) for n in ends]

        def recurrent(h: Var) -> Var:
            return h @ u + copies(a, batch + wide)

        def iteration(state: State, row: Sequence[Var]) -> tuple[State, Var]:
            gates, *exists = row
            return until_end(kind.cell(label("gates", gates), recurrent, state), state, *exists)

        first = (Constant(batch + C, 0)(),) * kind.carried
        _, hs = ops.scan(iteration, first, (rows, *masks))
        return label("out", ops.permute(hs, 1, 0, 2))

    batch = A.with_shape(A.shape[:1])
    with scope(name):
        return build(forward, [A + B, *types_of_lengths(A, lengths)])


def _require_axes(name: str, A: NdArrayType, B: NdArrayType, C: NdArrayType) -> None:
    if A.rank != 2 or B.rank != 1 or C.rank != 1 or not isinstance(C.shape[0], int):
        raise ShapeError(
            f"{name} must have the axes [batch, time], and features [d] and [h], with a number h",
            f"they are {A}, {B} and {C}",
            "reshape the input",
        )
