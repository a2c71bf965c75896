"""Scaled dot-product attention."""

from __future__ import annotations

from math import inf, sqrt

from catgrad import ops
from catgrad.frontends.torch.aten.contractions import matmul
from catgrad.frontends.torch.aten.operands import common_shape
from catgrad.frontends.torch.aten.randomness import dropped
from catgrad.frontends.torch.registry import aten
from catgrad.ops.attention import shared_heads
from catgrad.ops.softmax import softmax_of_seen
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Dtype


@aten("scaled_dot_product_attention.default", is_random=True)
def attention(
    q: Var,
    k: Var,
    v: Var,
    attn_mask: Var | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Var:
    """Compute softmax(q kᵀ · scale + mask) v; with `enable_gqa`, heads of queries share heads of keys."""
    if enable_gqa:
        k, v = (shared_heads(x, q.shape[-3]) for x in (k, v))
    batch = common_shape(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    q, k, v = (ops.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (q, k, v))
    usual = 1 / sqrt(q.shape[-1])
    if attn_mask is None and dropout_p == 0:
        rescaled = q if scale is None or scale == usual else q * (scale / usual)
        return ops.attention(rescaled, k, v, is_causal)
    scores = matmul(q, ops.transpose(k)) * (usual if scale is None else scale)
    if attn_mask is None:
        return matmul(dropped(ops.softmax(_causal(scores) if is_causal else scores), dropout_p), v)
    mask = ops.broadcast_to(attn_mask, scores.shape)
    if mask.dtype is Dtype.bool:
        seen, scores = mask, ops.select(mask, scores, Constant(scores.type, -inf)())
    else:
        seen, scores = mask > -inf, scores + mask
    return matmul(dropped(softmax_of_seen(scores, seen, scores.type.rank - 1), dropout_p), v)


def _causal(scores: Var) -> Var:
    """Hide later keys from each query."""
    t, s = scores.shape[-2:]
    before = ops.broadcast(ops.iota(s), (t, s), [0]) <= ops.broadcast(ops.iota(t), (t, s), [1])
    return ops.select(ops.broadcast_to(before, scores.shape), scores, Constant(scores.type, -inf)())
