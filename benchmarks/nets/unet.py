"""U-Net: convolutions at several scales, down and up, with the larger scale joined on the way up."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad import NdArrayType, Term, build, identity, layers, ops
from catgrad.dims import Size


def unet(batch: Size, side: int, widths: Sequence[int]) -> Term:
    """U-Net for images of one channel, with one scale for each width."""
    body = _scale(NdArrayType((batch, 1, side, side)), widths, 0)
    return body >> layers.conv(body.target.table[0], 1, 1, name="scores")


def _scale(x: NdArrayType, widths: Sequence[int], k: int) -> Term:
    """One scale, with all smaller ones inside."""
    down = _twice(x, widths[k], f"down_{k}")
    if k + 1 == len(widths):
        return down
    wide = down.target.table[0]
    half = layers.max_pool(wide, 2)
    inner = half >> _scale(half.target.table[0], widths, k + 1)
    up = inner >> layers.conv_transpose(inner.target.table[0], widths[k], 2, 2, name=f"up_{k}")
    joined = build(lambda z: ops.concat([z, up(z)], 1), [wide])
    return down >> joined >> _twice(joined.target.table[0], widths[k], f"merge_{k}")


def _twice(x: NdArrayType, channels: int, name: str) -> Term:
    """Two convolutions with ReLU."""
    model = identity(x)
    for part in ("first", "second"):
        model = model >> layers.conv(model.target.table[0], channels, 3, padding=1, name=f"{name}.{part}")
        model = model >> layers.relu(model.target.table)
    return model
