"""Convolution and pooling."""

from __future__ import annotations

from math import nan
from typing import Any

from catgrad.ops.conv import Conv, ConvTranspose, ConvWeight
from catgrad.ops.pool import MaxPool
from catgrad.types import Dtype

from .compute import inlined
from .graph import Graph, Value
from .rules import emits


def _attributes(op: Any) -> dict[str, Any]:
    return {
        "strides": list(op.strides),
        "pads": [*op.padding, *op.padding],
        "dilations": list(op.dilations),
    }


@emits("Conv")
def conv(g: Graph, op: Conv, x: Value, w: Value) -> str:
    """Convolution; of float64 by windows, as ONNX Runtime lacks it on a CPU."""
    if x.dtype is Dtype.float64:
        return inlined(g, op.body, x, w)
    return g.add("Conv", x, w, group=op.groups, **_attributes(op))


@emits("ConvTranspose")
def conv_transpose(g: Graph, op: ConvTranspose, x: Value, w: Value) -> str:
    """Transposed convolution."""
    if x.dtype is Dtype.float64:
        return inlined(g, op.body, x, w)
    extra = list(op.output_padding)
    return g.add("ConvTranspose", x, w, group=op.groups, output_padding=extra, **_attributes(op))


@emits("ConvWeight")
def conv_weight(g: Graph, op: ConvWeight, x: Value, y: Value) -> str:
    """Weights as a convolution of the image by y, with channels in place of the batch.

    Strides and dilations are exchanged; the groups of channels are groups of the convolution.
    """
    if x.dtype is Dtype.float64:
        return inlined(g, op.body, x, y)
    n, c, *image = x.type.shape
    spatial = list(range(3, 3 + len(image)))
    split = g.add("Reshape", x, g.shape([n, op.groups, c // op.groups, *image]), allowzero=1)
    joined = g.add("Transpose", split, perm=[2, 1, 0, *spatial])
    images = g.add("Reshape", joined, g.shape([c // op.groups, op.groups * n, *image]), allowzero=1)
    kernels = g.add("Transpose", y, perm=[1, 0, *(k - 1 for k in spatial)])
    w = g.add(
        "Conv",
        images,
        kernels,
        group=op.groups,
        strides=list(op.dilations),
        dilations=list(op.strides),
        pads=[*op.padding, *op.padding],
    )
    w = g.add("Transpose", w, perm=[1, 0, *(k - 1 for k in spatial)])
    starts, axes = [0] * len(image), [k - 1 for k in spatial]
    return g.add("Slice", w, g.constant(starts), g.constant(list(op.sizes)), g.constant(axes))


@emits("MaxPool")
def max_pool(g: Graph, op: MaxPool, x: Value) -> str:
    """Greatest element of each window, NaN if one is: the pooling of ONNX Runtime ignores some."""
    attributes = {"kernel_shape": list(op.sizes), **_attributes(op)}
    greatest = g.add("MaxPool", x, **attributes)
    marks = g.add("MaxPool", g.cast(g.add("IsNaN", x), Dtype.float32), **attributes)
    return g.add("Where", g.add("Greater", marks, g.constant(0, Dtype.float32)), g.like(x, nan), greatest)
