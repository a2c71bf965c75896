"""Multi-head self-attention, and transformer blocks."""

from __future__ import annotations

from functools import partial

from catgrad import ops
from catgrad.errors import OptionError, ShapeError
from catgrad.initialisers import ZEROS, Initial, fan_in_uniform, xavier_uniform
from catgrad.learn.layers.arguments import checked
from catgrad.learn.layers.basic import affine
from catgrad.learn.layers.memory import POSITION, remembering, require_one
from catgrad.learn.layers.norms import layer_norm
from catgrad.learn.layers.parts import Activation, gelu, identity, label, types_of_lengths, until_lengths
from catgrad.learn.layers.stateful import dropout as drops
from catgrad.learn.layers.structure import residual
from catgrad.learn.options import check_integer, positive
from catgrad.ops.attention import shared_heads
from catgrad.terms.build import build
from catgrad.terms.op import scope
from catgrad.terms.term import Term, obj
from catgrad.terms.var import Var
from catgrad.types import NdArrayType


@checked
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
    kv_heads: int | None = None,
    head_dim: int | None = None,
    window: int | None = None,
    lengths: bool = False,
) -> Term:
    """Multi-head self-attention: y = [head₁, …, headₕ] · W₀ + b₀, headᵢ = softmax(qᵢ kⱼᵀ / √e) vⱼ.

    The last axis of A is that of positions. One product x · W + b gives queries, keys and values of all
    heads, in this order. A head has `head_dim` features e, by default d / h. There are `kv_heads` keys and
    values, by default h, which groups of heads share: for k of them, j = ⌊i k / h⌋, counted from 0.

    With `causal`, position t attends to positions up to t only, and with a `window` of n to the last n of
    these. With `rotary`, the base of a rotary embedding, queries and keys are rotated by their positions.

    With `memory`, a key/value cache: A has one position, and in training mode, the layer appends its keys and
    values to buffers of `memory` positions, or of the window if it is shorter, all of which it attends to.
    When these are full, the earliest is replaced. The run number `position` counts.

    With `lengths`, a second input, whole numbers n, each sequence ends after n positions: beyond, the result
    is 0, and padding, which must be finite, changes nothing.

    Type:       A + B -> A + B, with lengths (A + B, i64[b…]) -> A + B, for B = [d] and A = [b…, t], with the
                parameters `<name>.in_proj.weight : [d, (h + 2 k) e]`, `<name>.in_proj.bias`,
                `<name>.out_proj.weight : [h e, d]` and `<name>.out_proj.bias`; with memory, the buffers
                `<name>.keys` and `<name>.values`
    Initial:    as in torch.nn.MultiheadAttention: W by xavier_uniform, W₀ U(-1/√n, 1/√n) for n = h e, 0
    Raises:     ShapeError if A has no axis, or without `head_dim`, the heads do not divide d; with memory, if
                A is more than one position; OptionError unless heads, `kv_heads`, `head_dim`, `window` and
                `memory` are integers ≥ 1, `rotary` is positive, `kv_heads` divide the heads, and a window has
                `causal` or memory; for lengths with memory
    Source:     Vaswani et al. 2017 (arXiv:1706.03762), section 3.2; shared keys and values: Ainslie et al.
                2023 (arXiv:2305.13245); windows in caches: Jiang et al. 2023 (arXiv:2310.06825), section 2
    """
    with scope(name):
        kv_heads, width = _heads(A, B, heads, kv_heads, head_dim)
        _check_options(A, rotary, memory, window, lengths)
        window = None if window is None else int(window)
        sizes = tuple(count * width for count in (heads, kv_heads, kv_heads))
        into = affine(A, B, B.with_shape((sum(sizes),)), "in_proj", bias, initial, bias_initial)
        out = affine(A, B.with_shape(sizes[:1]), B, "out_proj", bias, out_initial, bias_initial)

        def forward(x: Var, *ends: Var) -> Var:
            parts = zip("qkv", ops.split(into(x), sizes, -1), strict=True)
            q, k, v = (label(f"{name}_heads", _by_head(label(name, x), width)) for name, x in parts)
            if rotary is not None:
                positions = None if memory is None else ops.reshape(POSITION(), 1)
                q, k = (ops.rotary(y, rotary, positions=positions) for y in (q, k))
            if memory is None:
                y = ops.attention(q, shared_heads(k, heads), shared_heads(v, heads), causal, window, *ends)
            else:
                group = ops.reshape(q, *k.shape[:-2], heads // kv_heads, width)
                y = remembering(group, k, v, min(memory, window or memory))
            return label("out", until_lengths(out(label("joined", _joined(ops.reshape(y, *q.shape)))), *ends))

        return build(forward, [A + B, *types_of_lengths(A, lengths)])


def _check_options(
    A: NdArrayType, rotary: float | None, memory: int | None, window: int | None, lengths: bool
) -> None:
    if window is not None:
        check_integer("window", window, 1)
    if rotary is not None:
        positive("rotary", rotary)
    if memory is not None:
        require_one("attention", A, memory)
        if lengths:
            must, do = "attention with memory must have one position at a time", "leave them out"
            raise OptionError(must, "it has lengths", do)


def _heads(
    A: NdArrayType, B: NdArrayType, heads: int, kv_heads: int | None, head_dim: int | None
) -> tuple[int, int]:
    """Check the axes of attention, and return the number of keys and values, and the features of a head."""
    check_integer("heads", heads, 1)
    if (
        not A.rank
        or B.rank != 1
        or not isinstance(B.shape[0], int)
        or (head_dim is None and B.shape[0] % heads)
    ):
        raise ShapeError(
            f"attention must have an axis of positions, and features [d] with a multiple of {heads}",
            f"they are {A} and {B}",
            "choose another number of heads, or a head_dim",
        )
    if kv_heads is None:
        kv_heads = heads
    check_integer("kv_heads", kv_heads, 1)
    if heads % kv_heads:
        raise OptionError(
            "kv_heads must divide heads", f"they are {kv_heads} and {heads}", "choose a divisor"
        )
    if head_dim is None:
        head_dim = B.shape[0] // heads
    check_integer("head_dim", head_dim, 1)
    return kv_heads, head_dim


@checked
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
    lengths: bool = False,
) -> Term:
    """y = z + mlp(norm₂(z)) with z = x + attention(norm₁(x)), and mlp(u) = σ(u · W₁ + b₁) · W₂ + b₂.

    With `norm_first=False`, y = norm₂(z + mlp(z)) with z = norm₁(x + attention(x)). In training,
    `dropout` applies to the result of attention, to σ(…) and to the result of the mlp. `memory` and
    `lengths` are those of attention.

    Type:       A + B -> A + B, with lengths (A + B, i64[b…]) -> A + B, for B = [d] and A = [b…, t], with
                `hidden` features between, by default 4 d; the parameters are those of `<name>.self_attn`,
                `linear1`, `linear2`, `norm1` and `norm2`, as in torch.nn.TransformerEncoderLayer
    Initial:    as in torch.nn.TransformerEncoderLayer; `initial` is for all four matrices
    Raises:     as attention
    Source:     Vaswani et al. 2017 (arXiv:1706.03762); norms first: Xiong et al. 2020 (arXiv:2002.04745)
    """
    into, out = (initial or xavier_uniform), (initial or fan_in_uniform)
    with scope(name):
        attend = attention(
            A, B, heads, causal, rotary, bias, "self_attn", into, out, memory=memory, lengths=lengths
        )
        H = B.with_shape((4 * B.shape[0] if hidden is None else hidden,))
        wide, narrow = affine(A, B, H, "linear1", bias, out), affine(A, H, B, "linear2", bias, out)
        mlp = wide >> activation(obj(A + H)) >> narrow
        if dropout:
            drop1, drop, drop2 = (
                drops(x, dropout, kind)
                for x, kind in ((A + B, "dropout1"), (A + H, "dropout"), (A + B, "dropout2"))
            )
            attend, mlp = attend >> drop1, wide >> activation(obj(A + H)) >> drop >> narrow >> drop2
        norm1, norm2 = (layer_norm(A, B, epsilon, norm, bias) for norm in ("norm1", "norm2"))
        sum1, sum2 = (build(partial(label, part), [A + B]) for part in ("residual1", "residual2"))
    ends = types_of_lengths(A, lengths)
    if norm_first:
        block = residual((norm1 @ identity(ends)) >> attend) >> sum1 >> residual(norm2 >> mlp) >> sum2
    else:
        block = residual(attend) >> norm1 >> residual(mlp) >> norm2
    return build(lambda x, *n: until_lengths(block(x, *n), *n), [A + B, *ends]) if lengths else block


def _by_head(x: Var, width: int) -> Var:
    """Split heads: [b…, t, heads · width] to [b…, heads, t, width]."""
    *batch, t, d = x.shape
    apart = ops.reshape(x, *batch, t, d // width, width)
    return ops.permute(apart, *range(len(batch)), -2, -3, -1)


def _joined(y: Var) -> Var:
    """Join heads: [b…, heads, t, e] to [b…, t, heads · e]."""
    *batch, heads, t, e = y.shape
    return ops.reshape(ops.permute(y, *range(len(batch)), -2, -3, -1), *batch, t, heads * e)
