"""Scaled dot-product attention."""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

from catgrad import ops
from catgrad.frontends.torch.contractions import matmul
from catgrad.frontends.torch.operands import common_shape, spread
from catgrad.frontends.torch.registry import aten, require
from catgrad.terms.structural import Constant
from catgrad.types import Dtype


@aten("scaled_dot_product_attention.default")
def attention(
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Compute softmax(q kᵀ · scale + mask) v; with `enable_gqa`, heads of queries share heads of keys."""
    require(dropout_p == 0, "attention must be without dropout", f"it has {dropout_p}", "set it to 0")
    if enable_gqa:
        k, v = _shared(k, q.shape[-3]), _shared(v, q.shape[-3])
    batch = common_shape(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    q, k, v = (spread(x, (*batch, *x.shape[-2:])) for x in (q, k, v))
    usual = 1 / sqrt(q.shape[-1])
    if attn_mask is None:
        rescaled = q if scale is None or scale == usual else q * (scale / usual)
        return ops.attention(rescaled, k, v, is_causal)
    scores = matmul(q, ops.transpose(k)) * (usual if scale is None else scale)
    if attn_mask.dtype is not Dtype.bool:
        return matmul(ops.softmax(scores + spread(attn_mask, scores.shape)), v)
    seen = spread(attn_mask, scores.shape)
    weights = ops.softmax(ops.select(seen, scores, Constant(scores.type, -inf)()))
    # A query whose keys are all masked gets 0, as in PyTorch, and not NaN.
    sees = ops.broadcast(ops.any(seen, -1), weights.shape, [weights.type.rank - 1])
    return matmul(ops.select(sees, weights, Constant(weights.type, 0)()), v)


def _shared(x: Any, heads: int) -> Any:
    """Repeat each head of keys or values for the heads of queries that share it."""
    *lead, own, t, d = x.shape
    copies = ops.broadcast(x, (*lead, own, heads // own, t, d), [len(lead) + 1])
    return ops.reshape(copies, *lead, heads, t, d)
