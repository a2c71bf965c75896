"""Scaled dot-product attention: a definition, for which some targets have a kernel."""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

import numpy as np

from catgrad.dims import Size
from catgrad.errors import OptionError, ShapeError
from catgrad.ops.compare import select
from catgrad.ops.contract import Contract
from catgrad.ops.extrema import iota
from catgrad.ops.reduce import broadcast
from catgrad.ops.sequences import sequence_mask
from catgrad.ops.shape import reshape
from catgrad.ops.softmax import Softmax, softmax, softmax_of_seen
from catgrad.terms.op import Examples, Op, Types, floating
from catgrad.terms.structural import Constant, part, result
from catgrad.terms.var import Var
from catgrad.types import Array, NdArrayType

__all__ = ["attention"]


class Attention(Op):
    """Scaled dot-product attention: y = softmax(q kᵀ / √d) v, for floating T.

    With `causal`, position t attends to positions up to t only, and with a `window` of n to the last n of
    these: t - n + 1, …, t.

    Type:     (T[b…, t, d], T[b…, s, d], T[b…, s, e]) -> T[b…, t, e]; with a window, t = s
    Raises:   ShapeError if the shapes do not fit; if d is symbolic; if there are no keys; OptionError unless
              a window is an integer ≥ 1 of causal attention
    Gradient: of the body
    Source:   Vaswani et al. 2017 (arXiv:1706.03762), equation 1; windows: Beltagy et al. 2020
              (arXiv:2004.05150), section 3.1
    """

    causal: bool = False
    window: int | None = None
    contracts = True

    def __post_init__(self) -> None:
        if self.window is None:
            return
        if not self.causal:
            raise OptionError("a window must be one of causal attention", "causal is False", "set it")
        if not isinstance(self.window, int) or isinstance(self.window, bool) or self.window < 1:
            raise OptionError(
                "a window must be an integer of at least 1", f"it is {self.window!r}", "count its positions"
            )

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
        if self.window is not None and q.shape[-2] != k.shape[-2]:
            raise ShapeError(
                "attention with a window must have as many queries as keys",
                f"they are {q} and {k}",
                "attend to all keys",
            )
        return floating(q).with_shape((*q.shape[:-1], v.shape[-1]))

    def minimum_sizes(self, q: NdArrayType, k: NdArrayType, v: NdArrayType) -> tuple[tuple[Size, int], ...]:
        return ((k.shape[-2], 1),)

    def ref(self, q: Array, k: Array, v: Array) -> Any:
        scores = q @ np.swapaxes(k, -1, -2) * q.dtype.type(_scale(q))
        if self.causal:
            scores = np.where(seen(scores.shape[-2], scores.shape[-1], self.window), scores, -inf)
        return Softmax(scores.ndim - 1).ref(scores) @ v

    def body(self, q: Var, k: Var, v: Var) -> Var:
        scores = _scores(q, k)
        if self.causal:
            scores = _masked(scores, _seen(scores, self.window))
        return _mixed(softmax(part("masked_scores", scores)), v)

    @classmethod
    def examples(cls) -> Examples:
        shapes = [((2, 3), (4, 3), (4, 5)), ((2, 3, 4, 2), (2, 3, 4, 2), (2, 3, 4, 2))]
        types = [tuple(map(NdArrayType, three)) for three in shapes]
        return [
            (cls(False), types[0]),
            (cls(False), types[1]),
            (cls(True), types[1]),
            (cls(True, 2), types[1]),
        ]


def attention(
    q: Var, k: Var, v: Var, causal: bool = False, window: int | None = None, lengths: Var | None = None
) -> Var:
    """softmax(q kᵀ / √d) v over the last two axes; with `causal`, up to each position only.

    A `window` limits causal attention to that many positions, of which a query's own is the last. With
    `lengths`, whole numbers of which the axes are the first of q, k and v, no query attends to a key at or
    beyond its sequence's length; where it attends to none, y is 0.
    """
    whole = Attention(causal, window)
    if lengths is None:
        return whole(q, k, v)
    whole.type(q.type, k.type, v.type)
    scores = _scores(q, k)
    last = scores.type.rank - 1
    seen = broadcast(sequence_mask(lengths, k.shape[-2]), scores.shape, range(lengths.type.rank, last))
    seen = seen & _seen(scores, window) if causal else seen
    return _mixed(softmax_of_seen(_masked(scores, seen), seen, last), v)


def _scores(q: Var, k: Var) -> Var:
    """q kᵀ / √d over the last two axes."""
    b = tuple(range(q.type.rank - 2))
    t, s, d = range(len(b), len(b) + 3)
    scores: Var = part("scores", Contract((*b, t, d), (*b, s, d), (*b, t, s))(q, k))
    return scores * _scale(q)


def _masked(scores: Var, seen: Var) -> Var:
    return select(seen, scores, Constant(scores.type, -inf)())


def _mixed(weights: Var, v: Var) -> Var:
    """Weights · v over the last two axes."""
    b = tuple(range(v.type.rank - 2))
    t, s, _, e = range(len(b), len(b) + 4)
    return result("attended", Contract((*b, t, s), (*b, s, e), (*b, t, e))(part("weights", weights), v))


def shared_heads(x: Var, heads: Size) -> Var:
    """Copy each head of keys or values for the heads that share it: [b…, k, t, e] to [b…, heads, t, e]."""
    *batch, own, t, e = x.shape
    if own == heads:
        return x
    copies = broadcast(x, (*batch, own, heads // own, t, e), (len(batch) + 1,))
    return reshape(copies, *batch, heads, t, e)


def seen(t: int, s: int, window: int | None = None) -> Array:
    """Return the mask of causal attention as an array: true where a query attends to a key."""
    mask = np.tri(t, s, dtype=bool)
    return mask if window is None else mask & ~np.tri(t, s, -window, dtype=bool)


def _scale(q: Var | Array) -> float:
    """1 / √d; scores of queries without features are 0, whatever they are multiplied by."""
    return 1 / sqrt(q.shape[-1]) if q.shape[-1] else 1.0


def _seen(scores: Var, window: int | None) -> Var:
    """Return the causal mask: true where the position of the key is at most that of the query."""
    *_, t, s = scores.shape
    last = scores.type.rank - 1
    queries = broadcast(iota(t), scores.shape, (*range(last - 1), last))
    keys = broadcast(iota(s), scores.shape)
    not_later = keys <= queries
    return not_later if window is None else not_later & (queries < keys + window)
