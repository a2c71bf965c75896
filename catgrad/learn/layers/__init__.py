"""Layers as terms: compose them with `>>` and `@`, or apply them to variables inside `build`.

Types are given as for the linear map A ⊗ (B ⇒ C): `A` has the batch axes, `B` the input features,
`C` the output features. `A + B` is the type of an array with the axes of both.

`initial` and `bias_initial` are an initialiser such as `Normal(0, 0.02)`, or a function of fan-in and
fan-out such as `kaiming_uniform` (see `catgrad.initialisers`).
"""

from typing import TYPE_CHECKING

from catgrad.errors import no_attribute
from catgrad.learn.layers.attention import attention, transformer_block
from catgrad.learn.layers.basic import bias, bilinear, dense, embedding, linear, lora
from catgrad.learn.layers.gated import gated, geglu, swiglu
from catgrad.learn.layers.memory import position_embedding
from catgrad.learn.layers.norms import group_norm, layer_norm, rms_norm
from catgrad.learn.layers.parts import (
    buffer,
    elu,
    gelu,
    identity,
    label,
    leaky_relu,
    log_softmax,
    parameter,
    pointwise,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
    tanh,
    update,
)
from catgrad.learn.layers.recurrent import gru, lstm, rnn
from catgrad.learn.layers.spatial import (
    adaptive_avg_pool,
    adaptive_max_pool,
    avg_pool,
    conv,
    conv_transpose,
    flatten,
    global_avg_pool,
    max_pool,
    upsample_nearest,
)
from catgrad.learn.layers.stateful import batch_norm, dropout
from catgrad.learn.layers.structure import checkpointed, named, residual, sequential, shared
from catgrad.learn.losses import mse
from catgrad.learn.optimisers import sgd

__all__ = [
    "adaptive_avg_pool", "adaptive_max_pool", "attention", "avg_pool", "batch_norm", "bias",
    "bilinear", "buffer", "checkpointed", "conv", "conv_transpose", "dense", "dropout", "elu",
    "embedding", "flatten", "gated", "geglu", "gelu", "global_avg_pool", "group_norm", "gru", "identity",
    "label", "layer_norm", "leaky_relu", "linear", "log_softmax", "lora", "lstm", "max_pool", "mse", "named",
    "parameter", "pointwise", "position_embedding", "relu", "residual", "rms_norm", "rnn", "sequential",
    "sgd", "shared", "sigmoid", "silu", "softmax", "softplus", "swiglu", "tanh", "transformer_block",
    "update", "upsample_nearest",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # or it would take every name for one of the module
    __getattr__ = no_attribute("catgrad.layers", __all__)
