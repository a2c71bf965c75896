"""The four networks of MLPerf Tiny, with the batch norm of each convolution folded into it.

Source: Banbury et al. 2021, MLPerf Tiny Benchmark (arXiv:2106.07597), table 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from catgrad import Dtype, NdArrayType, Task, Term, build, layers, losses, ops
from catgrad.learn.optimisers import Optimiser
from catgrad.terms.term import compose

MOBILENET = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *((128, 1),) * 5, (256, 2), (256, 1))
"""Channels and stride of each block of MobileNet with a quarter of the width."""


def resnet_8() -> Term:
    """Return ResNet-8 for images of 3 × 32 × 32 in 10 classes (CIFAR-10)."""
    model = convolved(NdArrayType((1, 3, 32, 32)), 16, 3, 1, "stem")
    for k, (channels, stride) in enumerate(((16, 1), (32, 2), (64, 2))):
        model = model >> _residual(model.target.table[0], channels, stride, f"block_{k}")
    return model >> classified(model, 10)


def ds_cnn() -> Term:
    """Return the depthwise-separable network for 49 × 10 features of speech in 12 classes (keywords)."""
    model = convolved(NdArrayType((1, 1, 49, 10)), 64, (10, 4), (2, 2), "stem", padding=(5, 1))
    for k in range(4):
        model = model >> separable(model.target.table[0], 64, 1, f"block_{k}")
    return model >> classified(model, 12)


def mobilenet() -> Term:
    """Return MobileNetV1 of a quarter of the width for images of 3 × 96 × 96 in 2 classes (persons)."""
    model = convolved(NdArrayType((1, 3, 96, 96)), 8, 3, 2, "stem")
    for k, (channels, stride) in enumerate(MOBILENET):
        model = model >> separable(model.target.table[0], channels, stride, f"block_{k}")
    return model >> classified(model, 2)


def autoencoder() -> Term:
    """Return the dense auto-encoder for 640 features of sound (anomalies of machines)."""
    sizes = [NdArrayType((n,)) for n in (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)]
    kinds = [layers.relu] * 9 + [layers.identity]
    every = enumerate(zip(pairwise(sizes), kinds, strict=True))
    return compose(
        *(layers.dense(NdArrayType((1,)), a, b, kind, f"dense_{k}") for k, ((a, b), kind) in every)
    )


def convolved(
    x: NdArrayType, channels: int, size: Any, stride: Any, name: str, rectified: bool = True, **more: Any
) -> Term:
    """Return a convolution, by default with ReLU and with as much padding as keeps the size at stride 1."""
    options = {"padding": size // 2} if isinstance(size, int) else {}
    model = layers.conv(x, channels, size, stride, name=name, **options | more)
    return model >> layers.relu(model.target.table) if rectified else model


def separable(x: NdArrayType, channels: int, stride: int, name: str) -> Term:
    """Return a depthwise convolution, and one of single places."""
    depthwise = convolved(x, x.shape[1], 3, stride, f"{name}.depthwise", groups=x.shape[1])
    return depthwise >> convolved(depthwise.target.table[0], channels, 1, 1, f"{name}.pointwise")


def classified(model: Term, classes: int) -> Term:
    """Return the scores of classes from the means of channels."""
    x = model.target.table[0]
    batch, features, scores = (NdArrayType((n,)) for n in (x.shape[0], x.shape[1], classes))
    return layers.global_avg_pool(x) >> layers.dense(batch, features, scores, layers.identity, "scores")


def _residual(x: NdArrayType, channels: int, stride: int, name: str) -> Term:
    first = convolved(x, channels, 3, stride, f"{name}.first")
    body = first >> convolved(first.target.table[0], channels, 3, 1, f"{name}.second", rectified=False)
    if x.shape[1] == channels:
        return build(lambda image: ops.relu(body(image) + image), [x])
    short = convolved(x, channels, 1, stride, f"{name}.short", rectified=False)
    return build(lambda image: ops.relu(body(image) + short(image)), [x])


NETS: Mapping[str, Callable[[], Term]] = {
    "ResNet-8": resnet_8,
    "DS-CNN": ds_cnn,
    "MobileNetV1 0.25": mobilenet,
    "auto-encoder": autoencoder,
}


def task(model: Term, optimiser: Optimiser) -> Task:
    """Return the task of one example in each step: classes, or the example itself."""
    [y_hat] = model.target.table
    if model.source.table == model.target.table:
        return Task(model, optimiser, losses.mse, "tiny")
    return Task(model, optimiser, losses.cross_entropy, "tiny", (NdArrayType(y_hat.shape[:1], Dtype.int64),))
