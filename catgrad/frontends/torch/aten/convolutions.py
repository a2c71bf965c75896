"""Convolutions."""

from __future__ import annotations

from catgrad import ops
from catgrad.frontends.torch.aten import lengths
from catgrad.frontends.torch.aten.images import Numbers, batched, each
from catgrad.frontends.torch.aten.parts import pad
from catgrad.frontends.torch.registry import aten
from catgrad.ops.conv import Conv, ConvTranspose
from catgrad.ops.shape import Axes
from catgrad.terms.var import Var


@aten("convolution.default")
def convolution(
    x: Var,
    weight: Var,
    bias: Var | None,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    transposed: bool,
    output_padding: Numbers,
    groups: int,
) -> Var:
    """Convolution: Σ x[n, c, p · stride + k · dilation] · w[o, c, k] + b[o], or its transpose."""
    spatial = weight.type.rank - 2
    s, p, d, rest = (each(n, spatial) for n in (stride, padding, dilation, output_padding))

    def convolved(x: Var) -> Var:
        if transposed:
            y = _transposed(x, weight, s, p, rest, groups, d)
        elif lengths.is_symbolic(x, spatial):
            y = lengths.convolved(x, weight, Conv(s, p, d, groups))
        else:
            y = ops.conv(x, weight, s, p, d, groups)
        return y if bias is None else y + ops.broadcast(bias, y.shape, (0, *range(2, y.type.rank)))

    return batched(convolved, x, spatial)


def _transposed(x: Var, w: Var, s: Axes, p: Axes, rest: Axes, groups: int, d: Axes) -> Var:
    """Transposed convolution; output padding of at least the stride is what less padding cuts at the end."""
    none = (0,) * len(s)
    if lengths.is_symbolic(x, len(s)):
        whole = lengths.transposed(x, w, ConvTranspose(s, none, d, groups, none))
    elif all(n < step for n, step in zip(rest, s, strict=True)):
        return ops.conv_transpose(x, w, s, p, rest, groups, d)
    else:
        whole = ops.conv_transpose(x, w, s, none, none, groups, d)
    margins = [margin for n, cut in zip(rest, p, strict=True) for margin in (n - cut, -cut)]
    return pad(whole, margins[::-1])
