"""Multi-head self-attention, and transformer blocks."""

from __future__ import annotations

from typing import Any

from catgrad import ops
from catgrad.errors import ShapeError
from catgrad.initialisers import ZEROS, Initial, fan_in_uniform, xavier_uniform
from catgrad.learn.layers.basic import dense, linear
from catgrad.learn.layers.memory import remembering, require_one
from catgrad.learn.layers.norms import layer_norm
from catgrad.learn.layers.parts import Activation, gelu, identity, label
from catgrad.learn.layers.stateful import dropout as drops
from catgrad.learn.layers.structure import residual
from catgrad.terms.build import build
from catgrad.terms.op import scope
from catgrad.terms.term import Term, obj
from catgrad.types import NdArrayType


def attention(
    A: NdArrayType,
    B: NdArrayType,
    heads: int,
    causal: bool = False,
    rotary: float | None = None,
    bias: bool = True,
    name: str = "attention",
    initial: Initial = xavier_uniform,
    out_initial: Initial = fan_in_uniform,
    bias_initial: Initial = ZEROS,
    memory: int | None = None,
) -> Term:
    """Multi-head self-attention: y = [head₁, …, headₕ] · W₀ + b₀, headᵢ = softmax(qᵢ kᵢᵀ / √d) vᵢ.

    The last axis of A is that of positions. One product x · W + b gives queries, keys and values of all
    heads, in this order. With `causal`, position t attends to positions up to t only; with `rotary`, the
    base of a rotary embedding, queries and keys are rotated by their positions.

    With `memory`, a key/value cache: A has one position, and in training mode, the layer appends its keys and
    values to buffers of `memory` positions, all of which it attends to. The run number `position` counts.

    Type:       A + B -> A + B for B = [d], with the parameters `<name>.in_proj.weight : [d, 3 d]`,
                `<name>.in_proj.bias`, `<name>.out_proj.weight : [d, d]` and `<name>.out_proj.bias`; with
                memory, the buffers `<name>.keys` and `<name>.values`
    Initial:    as in torch.nn.MultiheadAttention: W by xavier_uniform, W₀ U(-1/√d, 1/√d), 0
    Raises:     ShapeError if A has no axis, or the heads do not divide d; with memory, if A is more than one
                position, or there is a rotary embedding
    Source:     Vaswani et al. 2017 (arXiv:1706.03762), section 3.2
    """
    if not A.rank or B.rank != 1 or not isinstance(B.shape[0], int) or heads < 1 or B.shape[0] % heads:
        raise ShapeError(
            f"attention must have an axis of positions, and features [d] with a multiple of {heads}",
            f"they are {A} and {B}",
            "choose another number of heads",
        )
    if memory is not None:
        require_one("attention", A, memory)
    if memory is not None and rotary is not None:
        raise ShapeError(
            "attention with memory must have no rotary embedding",
            f"it has one to the base {rotary}",
            "embed positions with layers.position_embedding",
        )
    wide = B.with_shape((3 * B.shape[0],))
    with scope(name):
        into = _affine(A, B, wide, "in_proj", bias, initial, bias_initial)
        out = _affine(A, B, B, "out_proj", bias, out_initial, bias_initial)

        def forward(x: Any) -> Any:
            parts = zip("qkv", ops.split(into(x), (B.shape[0],) * 3, -1), strict=True)
            q, k, v = (_by_head(label(name, part), heads) for name, part in parts)
            if rotary is not None:
                q, k = ops.rotary(q, rotary), ops.rotary(k, rotary)
            y = _joined(ops.attention(q, k, v, causal) if memory is None else remembering(q, k, v, memory))
            return label("out", out(y))

        return build(forward, [A + B])


def transformer_block(
    A: NdArrayType,
    B: NdArrayType,
    heads: int,
    hidden: int | None = None,
    activation: Activation = gelu,
    causal: bool = False,
    rotary: float | None = None,
    bias: bool = True,
    norm_first: bool = True,
    epsilon: float = 1e-5,
    dropout: float = 0.0,
    name: str = "block",
    initial: Initial | None = None,
    memory: int | None = None,
) -> Term:
    """y = z + mlp(norm₂(z)) with z = x + attention(norm₁(x)), and mlp(u) = σ(u · W₁ + b₁) · W₂ + b₂.

    With `norm_first=False`, y = norm₂(z + mlp(z)) with z = norm₁(x + attention(x)). In training,
    `dropout` applies to the result of attention, to σ(…) and to the result of the mlp. `memory` is that
    of attention.

    Type:       A + B -> A + B for B = [d], with `hidden` features between, by default 4 d; the
                parameters are those of `<name>.self_attn`, `linear1`, `linear2`, `norm1` and `norm2`,
                as in torch.nn.TransformerEncoderLayer
    Initial:    as in torch.nn.TransformerEncoderLayer; `initial` is for all four matrices
    Raises:     ShapeError if A has no axis, or the heads do not divide d
    Source:     Vaswani et al. 2017 (arXiv:1706.03762); norms first: Xiong et al. 2020 (arXiv:2002.04745)
    """
    into, out = (initial or xavier_uniform), (initial or fan_in_uniform)
    with scope(name):
        attend = attention(A, B, heads, causal, rotary, bias, "self_attn", into, out, memory=memory)
        H = B.with_shape((4 * B.shape[0] if hidden is None else hidden,))
        wide, narrow = _affine(A, B, H, "linear1", bias, out), _affine(A, H, B, "linear2", bias, out)
        mlp = wide >> activation(obj(A + H)) >> narrow
        if dropout:
            drop1, drop, drop2 = (
                drops(x, dropout, kind)
                for x, kind in ((A + B, "dropout1"), (A + H, "dropout"), (A + B, "dropout2"))
            )
            attend, mlp = attend >> drop1, wide >> activation(obj(A + H)) >> drop >> narrow >> drop2
        norm1, norm2 = (layer_norm(A, B, epsilon, norm, bias) for norm in ("norm1", "norm2"))
    if norm_first:
        return residual(norm1 >> attend) >> residual(norm2 >> mlp)
    return residual(attend) >> norm1 >> residual(mlp) >> norm2


def _affine(
    A: NdArrayType,
    B: NdArrayType,
    C: NdArrayType,
    name: str,
    bias: bool,
    initial: Initial,
    bias_initial: Initial = fan_in_uniform,
) -> Term:
    """Linear map: y = x · W + b, or x · W without `bias`."""
    if bias:
        return dense(A, B, C, identity, name, initial, bias_initial)
    return linear(A, B, C, name, initial)


def _by_head(x: Any, heads: int) -> Any:
    """Split heads: [b…, t, d] to [b…, heads, t, d / heads]."""
    *batch, t, d = x.shape
    apart = ops.reshape(x, *batch, t, heads, d // heads)
    return ops.permute(apart, *range(len(batch)), -2, -3, -1)


def _joined(y: Any) -> Any:
    """Join heads: [b…, heads, t, e] to [b…, t, heads · e]."""
    *batch, heads, t, e = y.shape
    return ops.reshape(ops.permute(y, *range(len(batch)), -2, -3, -1), *batch, t, heads * e)
