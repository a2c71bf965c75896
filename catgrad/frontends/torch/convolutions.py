"""Convolutions."""

from __future__ import annotations

from typing import Any

from catgrad import ops
from catgrad.frontends.torch.images import Numbers, batched, each
from catgrad.frontends.torch.registry import aten


@aten("convolution.default")
def convolution(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    transposed: bool,
    output_padding: Numbers,
    groups: int,
) -> Any:
    """Convolution: Σ x[n, c, p · stride + k · dilation] · w[o, c, k] + b[o], or its transpose."""
    spatial = weight.type.rank - 2
    s, p, d, rest = (each(n, spatial) for n in (stride, padding, dilation, output_padding))

    def convolved(x: Any) -> Any:
        if transposed:
            y = ops.conv_transpose(x, weight, s, p, rest, groups, d)
        else:
            y = ops.conv(x, weight, s, p, d, groups)
        return y if bias is None else y + ops.broadcast(bias, y.shape, (0, *range(2, y.type.rank)))

    return batched(convolved, x, spatial)
