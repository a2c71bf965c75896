"""Scaled dot-product attention: a definition, for which some targets have a kernel."""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

import numpy as np

from catgrad.dims import Size
from catgrad.errors import ShapeError
from catgrad.ops.compare import select
from catgrad.ops.contract import Contract
from catgrad.ops.extrema import iota
from catgrad.ops.reduce import broadcast
from catgrad.ops.softmax import Softmax, softmax
from catgrad.terms.op import Examples, Op, Types, floating
from catgrad.terms.structural import Constant
from catgrad.types import Array, NdArrayType


class Attention(Op):
    """Scaled dot-product attention: y = softmax(q kᵀ / √d) v, for floating T.

    With `causal`, position t attends to positions up to t only.

    Type:     (T[b…, t, d], T[b…, s, d], T[b…, s, e]) -> T[b…, t, e]
    Raises:   ShapeError if the shapes do not fit; if d is symbolic; if there are no keys
    Gradient: of the body
    Source:   Vaswani et al. 2017 (arXiv:1706.03762), equation 1
    """

    causal: bool = False
    contracts = True

    def type(self, q: NdArrayType, k: NdArrayType, v: NdArrayType) -> Types:
        fits = q.rank == k.rank == v.rank >= 2 and q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
        inner = (
            fits
            and isinstance(q.shape[-1], int)
            and q.shape[-1] == k.shape[-1]
            and k.shape[-2] == v.shape[-2]
        )
        if not (inner and q.dtype is k.dtype is v.dtype):
            raise ShapeError(
                "queries must be [b…, t, d], keys [b…, s, d] and values [b…, s, e], with a number d",
                f"they are {q}, {k} and {v}",
                "move heads before positions, and check the sizes",
            )
        return floating(q).with_shape((*q.shape[:-1], v.shape[-1]))

    def minimum_sizes(self, q: NdArrayType, k: NdArrayType, v: NdArrayType) -> tuple[tuple[Size, int], ...]:
        return ((k.shape[-2], 1),)

    def ref(self, q: Array, k: Array, v: Array) -> Any:
        scores = q @ np.swapaxes(k, -1, -2) * q.dtype.type(_scale(q))
        if self.causal:
            scores = np.where(np.tri(scores.shape[-2], scores.shape[-1], dtype=bool), scores, -inf)
        return Softmax(scores.ndim - 1).ref(scores) @ v

    def body(self, q: Any, k: Any, v: Any) -> Any:
        b = tuple(range(q.type.rank - 2))
        t, s, d, e = range(len(b), len(b) + 4)
        scores = Contract((*b, t, d), (*b, s, d), (*b, t, s))(q, k) * _scale(q)
        if self.causal:
            scores = select(_not_later(scores), scores, Constant(scores.type, -inf)())
        return Contract((*b, t, s), (*b, s, e), (*b, t, e))(softmax(scores), v)

    @classmethod
    def examples(cls) -> Examples:
        shapes = [((2, 3), (4, 3), (4, 5)), ((2, 3, 4, 2), (2, 3, 4, 2), (2, 3, 4, 2))]
        types = [tuple(map(NdArrayType, three)) for three in shapes]
        return [(cls(False), types[0]), (cls(False), types[1]), (cls(True), types[1])]


def attention(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    """softmax(q kᵀ / √d) v over the last two axes; with `causal`, up to each position only."""
    return Attention(causal)(q, k, v)


def _scale(q: Any) -> float:
    """1 / √d; scores of queries without features are 0, whatever they are multiplied by."""
    return 1 / sqrt(q.shape[-1]) if q.shape[-1] else 1.0


def _not_later(scores: Any) -> Any:
    """Return the causal mask: true where the position of the key is at most that of the query."""
    *_, t, s = scores.shape
    last = scores.type.rank - 1
    queries = broadcast(iota(t), scores.shape, (*range(last - 1), last))
    return broadcast(iota(s), scores.shape) <= queries
