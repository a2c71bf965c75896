"""Recurrent layers: LSTM and GRU, as loops over the time axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catgrad import ops
from catgrad.errors import ShapeError
from catgrad.initialisers import Initial, chosen, fan_in_uniform
from catgrad.learn.layers.arguments import checked
from catgrad.learn.layers.parts import copies, label, parameter
from catgrad.terms.build import build
from catgrad.terms.op import scope
from catgrad.terms.structural import Constant
from catgrad.terms.term import Term
from catgrad.types import NdArrayType

Recurrent = Callable[[Any], Any]


def lstm_cell(gates: Any, recurrent: Recurrent, state: Any) -> Any:
    """LSTM cell: c ← f · c + i · g and h ← o · tanh c, with i, f, g and o from gates + recurrent(h)."""
    h, c = label("h", state[0]), label("c", state[1])
    parts = _parts(gates + recurrent(h), 4)
    squashed = (ops.sigmoid, ops.sigmoid, ops.tanh, ops.sigmoid)
    i, f, g, o = (label(n, s(part)) for n, s, part in zip("ifgo", squashed, parts, strict=True))
    c = label("new_c", f * c + i * g)
    h = label("new_h", o * label("tanh_c", ops.tanh(c)))
    return (h, c), h


def gru_cell(gates: Any, recurrent: Recurrent, state: Any) -> Any:
    """GRU cell: h ← (1 - z) · n + z · h, with r, z and n from the gates and recurrent(h)."""
    h = label("h", state[0])
    (x_r, x_z, x_n), (h_r, h_z, h_n) = _parts(gates, 3), _parts(recurrent(h), 3)
    r, z = label("r", ops.sigmoid(x_r + h_r)), label("z", ops.sigmoid(x_z + h_z))
    n = label("n", ops.tanh(x_n + r * h_n))
    h = label("new_h", n + z * (h - n))
    return (h,), h


@checked
def lstm(
    A: NdArrayType, B: NdArrayType, C: NdArrayType, name: str = "lstm", initial: Initial | None = None
) -> Term:
    """Long short-term memory: c ← f · c + i · g, h ← o · tanh c, from 0 on, for each position.

    i, f, o = σ(…) and g = tanh(…) are, in the order i, f, g, o, parts of x W + b + h U + a. The first
    axis of A is that of the batch, the second that of time.

    Type:       A + B -> A + C for A = [N, T], B = [d] and C = [h]: h at every time, with the parameters
                `<name>.weight_ih_l0 : [d, 4h]` W, `<name>.weight_hh_l0 : [h, 4h]` U,
                `<name>.bias_ih_l0 : [4h]` b and `<name>.bias_hh_l0 : [4h]` a
    Initial:    all U(-1/√h, 1/√h), as in torch.nn.LSTM
    Raises:     ShapeError if A has not two axes, or B or C not one
    Source:     Hochreiter and Schmidhuber 1997, as in torch.nn.LSTM with batch_first
    """
    return _recurrent(A, B, C, 4, 2, lstm_cell, name, initial)


@checked
def gru(
    A: NdArrayType, B: NdArrayType, C: NdArrayType, name: str = "gru", initial: Initial | None = None
) -> Term:
    """Gated recurrent unit: h ← (1 - z) · n + z · h, from 0 on, for each position.

    r, z = σ(…) are, in this order, the first parts of x W + b + h U + a, and n is
    tanh(x Wₙ + bₙ + r · (h Uₙ + aₙ)). The first axis of A is that of the batch, the second that of time.

    Type:       A + B -> A + C for A = [N, T], B = [d] and C = [h]: h at every time, with the parameters
                `<name>.weight_ih_l0 : [d, 3h]` W, `<name>.weight_hh_l0 : [h, 3h]` U,
                `<name>.bias_ih_l0 : [3h]` b and `<name>.bias_hh_l0 : [3h]` a
    Initial:    all U(-1/√h, 1/√h), as in torch.nn.GRU
    Raises:     ShapeError if A has not two axes, or B or C not one
    Source:     Cho et al. 2014 (arXiv:1406.1078), as in torch.nn.GRU with batch_first
    """
    return _recurrent(A, B, C, 3, 1, gru_cell, name, initial)


def _parts(x: Any, count: int) -> tuple[Any, ...]:
    """Split the last axis into `count` equal parts."""
    return ops.split(x, (x.shape[-1] // count,) * count, -1)


def _recurrent(
    A: NdArrayType,
    B: NdArrayType,
    C: NdArrayType,
    gates: int,
    carried: int,
    cell: Callable[[Any, Recurrent, Any], Any],
    name: str,
    initial: Initial | None,
) -> Term:
    """Compute the product with x for all times, then loop over time."""
    if A.rank != 2 or B.rank != 1 or C.rank != 1 or not isinstance(C.shape[0], int):
        raise ShapeError(
            f"{name} must have the axes [batch, time], and features [d] and [h], with a number h",
            f"they are {A}, {B} and {C}",
            "reshape the input",
        )
    wide = C.with_shape((gates * C.shape[0],))
    uniform = fan_in_uniform(C.shape[0])

    def weight(kind: str, source: NdArrayType) -> Any:
        first = uniform if initial is None else chosen(initial, source.size, wide.size)
        return parameter(f"weight_{kind}_l0", source + wide, first)

    def forward(x: Any) -> Any:
        w, u = weight("ih", B), weight("hh", C)
        b, a = (parameter(f"bias_{kind}_l0", wide, uniform) for kind in ("ih", "hh"))
        rows = ops.permute(x @ w + copies(b, A + wide), 1, 0, 2)
        batch = A.with_shape(A.shape[:1])

        def recurrent(h: Any) -> Any:
            return h @ u + copies(a, batch + wide)

        first = (Constant(batch + C, 0)(),) * carried
        _, hs = ops.scan(lambda state, row: cell(label("gates", row), recurrent, state), first, rows)
        return label("out", ops.permute(hs, 1, 0, 2))

    with scope(name):
        return build(forward, [A + B])
