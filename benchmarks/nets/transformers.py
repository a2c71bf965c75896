"""Models of sequences of tokens: GPT with tied embeddings, vision transformer, and MLP-Mixer."""

from __future__ import annotations

from typing import Any

from catgrad import Dtype, NdArrayType, Term, build, layers, ops
from catgrad.dims import Size
from catgrad.terms.term import compose
from catgrad.terms.var import Var
from examples.char_gpt import GELU, INITIAL


def tied_gpt(batch: Size, vocabulary: int, depth: int, width: int, heads: int, context: int) -> Term:
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

    def forward(x: Var) -> Any:
        rows = layers.parameter("characters.weight", NdArrayType((vocabulary, width)), INITIAL)
        positions = layers.parameter("positions.weight", NdArrayType((context, width)), INITIAL)
        embedded = ops.gather(rows, x)
        return body(embedded + ops.broadcast(positions, embedded.shape)) @ ops.permute(rows, 1, 0)

    return build(forward, [NdArrayType((batch, context), Dtype.int64)])


def vit(batch: Size, side: int, patch: int, depth: int, width: int, heads: int, classes: int) -> Term:
    """Vision transformer: patches with positions, blocks, a norm, and a linear map of the mean of tokens."""
    tokens = (side // patch) ** 2
    places, features = NdArrayType((batch, tokens)), NdArrayType((width,))

    def placed(x: Var) -> Var:
        positions = layers.parameter("positions.weight", NdArrayType((tokens, width)), INITIAL)
        return x + ops.broadcast(positions, x.shape)

    blocks = [layers.transformer_block(places, features, heads, name=f"block_{k}") for k in range(depth)]
    embedded = _patches(batch, side, patch, width) >> build(placed, [places + features])
    return compose(embedded, *blocks, _scores(places, features, classes))


def mixer(
    batch: Size, side: int, patch: int, depth: int, width: int, hidden: tuple[int, int], classes: int
) -> Term:
    """MLP-Mixer: perceptrons over tokens and over features in turns; `hidden` has the widths inside both."""
    tokens = (side // patch) ** 2
    places, features = NdArrayType((batch, tokens)), NdArrayType((width,))
    blocks = [_mixed(places, features, hidden, f"block_{k}") for k in range(depth)]
    return compose(_patches(batch, side, patch, width), *blocks, _scores(places, features, classes))


def _mixed(places: NdArrayType, features: NdArrayType, hidden: tuple[int, int], name: str) -> Term:
    """One turn of the mixer."""
    batch, tokens = places.shape
    across = _two_layers(
        NdArrayType((batch,)) + features, NdArrayType((tokens,)), hidden[0], f"{name}.tokens"
    )
    within = _two_layers(places, features, hidden[1], f"{name}.features")
    first, second = (layers.layer_norm(places, features, name=f"{name}.norm{k}") for k in (1, 2))
    turned = build(
        lambda x: ops.permute(across(ops.permute(first(x), 0, 2, 1)), 0, 2, 1), [places + features]
    )
    return layers.residual(turned) >> layers.residual(second >> within)


def _two_layers(A: NdArrayType, B: NdArrayType, hidden: int, name: str) -> Term:
    wide = NdArrayType((hidden,))
    inner = layers.dense(A, B, wide, layers.gelu, f"{name}.linear1")
    return inner >> layers.dense(A, wide, B, layers.identity, f"{name}.linear2")


def _patches(batch: Size, side: int, patch: int, width: int) -> Term:
    """Rows of features, a linear map of each patch of an image."""
    image, tokens = NdArrayType((batch, 3, side, side)), (side // patch) ** 2
    convolved = layers.conv(image, width, patch, patch, name="patches")
    flat = build(
        lambda x: ops.permute(ops.reshape(x, batch, width, tokens), 0, 2, 1), list(convolved.target.table)
    )
    return convolved >> flat


def _scores(places: NdArrayType, features: NdArrayType, classes: int) -> Term:
    """A norm, and a linear map of the mean of tokens."""
    N = NdArrayType(places.shape[:1])
    norm = layers.layer_norm(places, features, name="norm")
    pooled = build(lambda x: ops.mean(norm(x), 1), [places + features])
    return pooled >> layers.dense(N, features, NdArrayType((classes,)), layers.identity, "scores")
