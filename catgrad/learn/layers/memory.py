"""Key/value caches: one position at a time attends to the stored keys and values of earlier ones."""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

from catgrad import ops
from catgrad.errors import ShapeError
from catgrad.initialisers import ZEROS, Initial, chosen
from catgrad.learn.layers.parts import buffer, label, parameter, update
from catgrad.ops.contract import Contract
from catgrad.ops.softmax import softmax
from catgrad.terms.build import build
from catgrad.terms.op import scope
from catgrad.terms.state import RunNumber
from catgrad.terms.structural import Constant
from catgrad.terms.term import Term
from catgrad.types import Dtype, NdArrayType

POSITION = RunNumber("position", NdArrayType((), Dtype.int64), counts=True)
"""The number of positions since it was last set to 0."""


def position_embedding(
    A: NdArrayType, B: NdArrayType, memory: int, name: str = "positions", initial: Initial = ZEROS
) -> Term:
    """Learned position embedding: y = x + W[t], where t counts the runs.

    Type:       A + B -> A + B, with the parameter `<name>.weight` of type [memory] + B
    Raises:     ShapeError if the last axis of A is not one position; at run time, IndexError after `memory`
                positions
    """
    require_one("an embedding of positions", A, memory)
    table = NdArrayType((memory, *B.shape), B.dtype)

    def forward(x: Any) -> Any:
        weight = parameter("weight", table, chosen(initial, B.size, memory))
        row = ops.gather(weight, ops.reshape(POSITION(), 1))
        return label("out", x + ops.broadcast(ops.reshape(row, *B.shape), x.shape))

    with scope(name):
        return build(forward, [A + B])


def require_one(layer: str, A: NdArrayType, memory: int) -> None:
    """Raise ShapeError unless the last axis of A is one position, and the memory has room for it."""
    if not A.rank or A.shape[-1] != 1:
        raise ShapeError(
            f"{layer} with memory must have one position at a time",
            f"it has {A}",
            "end it with an axis of size 1",
        )
    if memory < 1:
        raise ShapeError(
            "memory must be a number of positions of at least 1",
            f"it is {memory}",
            "pass the maximum length of a text",
        )


def remembering(q: Any, k: Any, v: Any, memory: int) -> Any:
    """Attend from one position: softmax(q Kᵀ / √d) V, where K and V are the cache with k and v appended.

    Type:     (T[b…, 1, d], T[b…, 1, d], T[b…, 1, e]) -> T[b…, 1, e]
    """
    keys, values = (_cached(name, x, memory) for name, x in (("keys", k), ("values", v)))
    b = tuple(range(q.type.rank - 2))
    t, s, d, e = range(len(b), len(b) + 4)
    scores = Contract((*b, t, d), (*b, s, d), (*b, t, s))(q, keys) * (1 / sqrt(q.shape[-1]))
    now = ops.broadcast(POSITION(), scores.shape)
    known = ops.broadcast(ops.iota(memory), scores.shape) <= now
    scores = ops.select(known, scores, Constant(scores.type, -inf)())
    return Contract((*b, t, s), (*b, s, e), (*b, t, e))(softmax(scores), values)


def _cached(name: str, x: Any, memory: int) -> Any:
    """Write x to its position of the cache with this name, and return the cache."""
    *batch, _, features = x.shape
    shape = (*batch, memory, features)
    kept = buffer(name, NdArrayType(shape, x.dtype))
    axis = len(batch)
    rows = ops.broadcast(ops.iota(memory), shape, (*range(axis), axis + 1))
    copies = ops.broadcast(ops.reshape(x, *batch, features), shape, (axis,))
    new = ops.select(rows == ops.broadcast(POSITION(), shape), copies, kept)
    update(name, new)
    return new
