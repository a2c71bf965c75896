"""Convolutional networks: LeNet-5, residual networks, and chains of any convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.nets.dense import perceptron
from catgrad import NdArrayType, Term, build, identity, layers, ops
from catgrad.dims import Size
from catgrad.terms.term import compose


def lenet(batch: Size) -> Term:
    """LeNet-5 for images of 28 × 28 pixels, with max pooling and ReLU."""
    small = _stage(NdArrayType((batch, 1, 28, 28)), 6, 2, "conv_0")
    tiny = _stage(small.target.table[0], 16, 0, "conv_1")
    flat = layers.flatten(tiny.target.table[0])
    return compose(small, tiny, flat, perceptron(batch, (400, 120, 84, 10), "relu", "identity"))


def _stage(x: NdArrayType, channels: int, padding: int, name: str) -> Term:
    convolved = layers.conv(x, channels, 5, padding=padding, name=name)
    pooled = convolved >> layers.max_pool(convolved.target.table[0], 2)
    return pooled >> layers.relu(pooled.target.table)


def digits(batch: Size) -> Term:
    """Convolutional network of examples/digits.py for images of 8 × 8 pixels."""
    image = NdArrayType((batch, 1, 8, 8))
    half = _pooled(image, 8, "conv_0")
    quarter = _pooled(half.target.table[0], 16, "conv_1")
    flat = layers.flatten(quarter.target.table[0])
    return compose(half, quarter, flat, perceptron(batch, (64, 10), "relu", "identity"))


def _pooled(x: NdArrayType, channels: int, name: str) -> Term:
    convolved = layers.conv(x, channels, 3, padding=1, name=name)
    active = convolved >> layers.relu(convolved.target.table)
    return active >> layers.max_pool(active.target.table[0], 2)


def resnet(
    batch: Size,
    side: int = 32,
    stem: tuple[int, int, int] = (16, 3, 1),
    pooled: bool = False,
    blocks: Sequence[tuple[int, int]] = ((16, 1), (32, 2), (64, 2)),
    classes: int = 10,
) -> Term:
    """Residual network of basic blocks, by default ResNet-8 for 3 × 32 × 32.

    `stem` has the channels, window and stride of the first convolution, after which comes max pooling if
    `pooled`; `blocks` the channels and stride of each block. Where channels change, x is projected.
    """
    model = _normed(NdArrayType((batch, 3, side, side)), *stem, "stem", rectified=True)
    if pooled:
        model = model >> layers.max_pool(model.target.table[0], 3, 2, 1)
    for k, (channels, stride) in enumerate(blocks):
        model = model >> _basic_block(model.target.table[0], channels, stride, f"block_{k}")
    model = model >> layers.global_avg_pool(model.target.table[0])
    N, features, scores = (NdArrayType((size,)) for size in (batch, blocks[-1][0], classes))
    return model >> layers.dense(N, features, scores, layers.identity, "scores")


def _normed(
    x: NdArrayType, channels: int, size: int, stride: int, name: str, rectified: bool = False
) -> Term:
    """Convolution, batch norm, and optionally ReLU."""
    convolved = layers.conv(x, channels, size, stride, size // 2, name=f"{name}.conv", bias=False)
    model = convolved >> layers.batch_norm(convolved.target.table[0], name=f"{name}.norm")
    return model >> layers.relu(model.target.table) if rectified else model


def _basic_block(x: NdArrayType, channels: int, stride: int, name: str) -> Term:
    """Residual block: ReLU of two convolutions plus x or its projection."""
    first = _normed(x, channels, 3, stride, f"{name}.first", rectified=True)
    body = first >> _normed(first.target.table[0], channels, 3, 1, f"{name}.second")
    short = identity(x) if x.shape[1] == channels else _normed(x, channels, 1, stride, f"{name}.short")
    return build(lambda image: ops.relu(body(image) + short(image)), [x])


def convolutional(
    batch: Size, shape: Sequence[int], stages: Sequence[Mapping[str, int]], normed: bool, classes: int = 10
) -> Term:
    """Chain of convolutions with ReLU, whose means over space a linear map takes.

    `shape` has the channels of x and its sizes in space. A stage has `channels` and an odd `size`, and may
    have a `stride`, `dilation` and `groups`; with `normed`, batch norm follows it.
    """
    x = NdArrayType((batch, *shape))
    model = identity(x)
    for k, stage in enumerate(stages):
        model = model >> _stage_of(model.target.table[0], stage, normed, f"stage_{k}")
    model = model >> layers.global_avg_pool(model.target.table[0])
    N, features, scores = (NdArrayType((size,)) for size in (batch, stages[-1]["channels"], classes))
    return model >> layers.dense(N, features, scores, layers.identity, "scores")


def _stage_of(x: NdArrayType, stage: Mapping[str, int], normed: bool, name: str) -> Term:
    padding = stage.get("dilation", 1) * (stage["size"] // 2)
    model = layers.conv(x, **stage, padding=padding, name=f"{name}.conv", bias=not normed)
    if normed:
        model = model >> layers.batch_norm(model.target.table[0], name=f"{name}.norm")
    return model >> layers.relu(model.target.table)
