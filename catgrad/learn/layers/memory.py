"""Key/value caches: one position at a time attends to the stored keys and values of earlier ones."""

from __future__ import annotations

from math import inf, sqrt

from catgrad import ops
from catgrad.errors import ShapeError
from catgrad.initialisers import ZEROS, Initial, chosen
from catgrad.learn.layers.arguments import checked
from catgrad.learn.layers.parts import buffer, label, parameter, update
from catgrad.learn.options import check_integer
from catgrad.ops.contract import Contract
from catgrad.ops.softmax import softmax
from catgrad.terms.build import build
from catgrad.terms.op import scope
from catgrad.terms.state import RunNumber
from catgrad.terms.structural import Constant
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType

POSITION = RunNumber("position", NdArrayType((), Dtype.int64), counts=True)
"""The number of positions since it was last set to 0."""


@checked
def position_embedding(
    A: NdArrayType, B: NdArrayType, memory: int, name: str = "positions", initial: Initial = ZEROS
) -> Term:
    """Learned position embedding: y = x + W[t], where t counts the runs.

    Type:       A + B -> A + B, with the parameter `<name>.weight` of type [memory] + B
    Raises:     ShapeError if the last axis of A is not one position; OptionError unless `memory` is an
                integer ≥ 1; at run time, IndexError after `memory` positions
    """

    def forward(x: Var) -> Var:
        table = NdArrayType((memory, *B.shape), B.dtype)
        weight = parameter("weight", table, chosen(initial, B.size, memory))
        row = ops.gather(weight, ops.reshape(POSITION(), 1))
        return label("out", x + ops.broadcast(ops.reshape(row, *B.shape), x.shape))

    with scope(name):
        require_one("an embedding of positions", A, memory)
        return build(forward, [A + B])


def require_one(layer: str, A: NdArrayType, memory: int) -> None:
    """Raise ShapeError unless the last axis of A is one position, OptionError unless memory has room."""
    if not A.rank or A.shape[-1] != 1:
        raise ShapeError(
            f"{layer} with memory must have one position at a time",
            f"it has {A}",
            "end it with an axis of size 1",
        )
    check_integer("memory", memory, 1)


def remembering(q: Var, k: Var, v: Var, rows: int) -> Var:
    """Attend from one position: softmax(q Kᵀ / √d) V, where K and V are the cache with k and v.

    The cache has the last `rows` positions in any order, since a sum over them has none: position p replaces
    row p mod `rows`. The g queries of a group share one key and one value at each position.

    Type:     (T[b…, g, d], T[b…, 1, d], T[b…, 1, e]) -> T[b…, g, e]
    """
    keys, values = (_cached(name, x, rows) for name, x in (("keys", k), ("values", v)))
    b = tuple(range(q.type.rank - 2))
    g, s, d, e = range(len(b), len(b) + 4)
    scores = Contract((*b, g, d), (*b, s, d), (*b, g, s))(q, keys) * (1 / sqrt(q.shape[-1]))
    now = ops.broadcast(POSITION(), scores.shape)
    known = ops.broadcast(ops.iota(rows), scores.shape) <= now
    scores = ops.select(known, scores, Constant(scores.type, -inf)())
    return Contract((*b, g, s), (*b, s, e), (*b, g, e))(softmax(scores), values)


def _cached(name: str, x: Var, rows: int) -> Var:
    """Write x to the row of its position in the cache with this name, and return the cache."""
    *batch, _, features = x.shape
    shape = (*batch, rows, features)
    kept = buffer(name, NdArrayType(shape, x.dtype))
    axis = len(batch)
    every = ops.broadcast(ops.iota(rows), shape, (*range(axis), axis + 1))
    copies = ops.broadcast(ops.reshape(x, *batch, features), shape, (axis,))
    new = ops.select(every == ops.broadcast(POSITION() % rows, shape), copies, kept)
    update(name, new)
    return new
