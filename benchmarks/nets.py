"""The models of `benchmarks.workloads` as terms of catgrad."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from catgrad import Dtype, NdArrayType, Term, build, identity, layers, ops
from catgrad.terms.term import compose
from examples.char_gpt import GELU, INITIAL, gpt


def perceptron(batch: int, widths: tuple[int, ...], activation: str, last: str) -> Term:
    """Dense layers with an activation after each."""
    N, sizes = NdArrayType((batch,)), [NdArrayType((width,)) for width in widths]
    outer = [activation] * (len(widths) - 2) + [last]
    every = [
        layers.dense(N, a, b, getattr(layers, name), f"dense_{k}")
        for k, (a, b, name) in enumerate(zip(sizes[:-1], sizes[1:], outer, strict=True))
    ]
    return compose(*every)


def lenet(batch: int) -> Term:
    """LeNet-5 for images of 28 × 28 pixels, with max pooling and ReLU."""
    small = _stage(NdArrayType((batch, 1, 28, 28)), 6, 2, "conv_0")
    tiny = _stage(small.target.table[0], 16, 0, "conv_1")
    flat = layers.flatten(tiny.target.table[0])
    return compose(small, tiny, flat, perceptron(batch, (400, 120, 84, 10), "relu", "identity"))


def _stage(x: NdArrayType, channels: int, padding: int, name: str) -> Term:
    convolved = layers.conv(x, channels, 5, padding=padding, name=name)
    pooled = convolved >> layers.max_pool(convolved.target.table[0], 2)
    return pooled >> layers.relu(pooled.target.table)


def digits(batch: int) -> Term:
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
    batch: int,
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


def tied_gpt(batch: int, vocabulary: int, depth: int, width: int, heads: int, context: int) -> Term:
    """GPT with tied embeddings."""
    places, features = NdArrayType((batch, context)), NdArrayType((width,))
    body = compose(
        *(
            layers.transformer_block(
                places, features, heads, activation=GELU, causal=True, name=f"block_{k}", initial=INITIAL
            )
            for k in range(depth)
        ),
        layers.layer_norm(places, features, name="norm"),
    )

    def forward(x: Any) -> Any:
        rows = layers.parameter("characters.weight", NdArrayType((vocabulary, width)), INITIAL)
        positions = layers.parameter("positions.weight", NdArrayType((context, width)), INITIAL)
        embedded = ops.gather(rows, x)
        return body(embedded + ops.broadcast(positions, embedded.shape)) @ ops.permute(rows, 1, 0)

    return build(forward, [NdArrayType((batch, context), Dtype.int64)])


def vit(batch: int, side: int, patch: int, depth: int, width: int, heads: int, classes: int) -> Term:
    """Vision transformer: patches with positions, blocks, a norm, and a linear map of the mean of tokens."""
    tokens = (side // patch) ** 2
    places, features = NdArrayType((batch, tokens)), NdArrayType((width,))
    image = NdArrayType((batch, 3, side, side))

    def embedded(x: Any) -> Any:
        rows = ops.permute(ops.reshape(patches(x), batch, width, tokens), 0, 2, 1)
        positions = layers.parameter("positions.weight", NdArrayType((tokens, width)), INITIAL)
        return rows + ops.broadcast(positions, rows.shape)

    patches = layers.conv(image, width, patch, patch, name="patches")
    blocks = [layers.transformer_block(places, features, heads, name=f"block_{k}") for k in range(depth)]
    body = compose(*blocks, layers.layer_norm(places, features, name="norm"))
    pooled = build(lambda x: ops.mean(body(embedded(x)), 1), [image])
    scores = layers.dense(NdArrayType((batch,)), features, NdArrayType((classes,)), layers.identity, "scores")
    return pooled >> scores


MODELS: Mapping[str, Callable[..., Term]] = {
    "perceptron": perceptron, "lenet": lenet, "digits": digits, "resnet": resnet,
    "gpt": gpt, "tied_gpt": tied_gpt, "vit": vit,
}  # fmt: skip
