"""The operations. Every module here declares some; importing the package registers them all."""

# Their names are those of the literature and of NumPy, some of which Python has for itself too.
from catgrad.ops.activations import (
    elu,
    gelu,
    gelu_tanh,
    leaky_relu,
    relu,
    sigmoid,
    silu,
    softplus,
)
from catgrad.ops.arithmetic import (
    absolute,
    add,
    divide,
    floor,
    maximum,
    minimum,
    multiply,
    negate,
    power,
    round,
    sign,
    square,
    subtract,
)
from catgrad.ops.attention import attention
from catgrad.ops.batch_norm import batch_norm
from catgrad.ops.cast import cast
from catgrad.ops.compare import equal, greater, greater_equal, less, less_equal, select
from catgrad.ops.contract import contract, matmul
from catgrad.ops.control import checkpoint, cond, repeat, scan
from catgrad.ops.conv import conv, conv_transpose
from catgrad.ops.extrema import argmax, iota, max
from catgrad.ops.gather import gather, scatter_add
from catgrad.ops.norms import group_norm, layer_norm, rms_norm
from catgrad.ops.pool import avg_pool, global_avg_pool, max_pool
from catgrad.ops.random import random_bits, random_normal, random_uniform
from catgrad.ops.reduce import broadcast, mean, number_of, sum
from catgrad.ops.resize import adaptive_avg_pool, adaptive_max_pool, upsample_nearest
from catgrad.ops.rotary import rotary
from catgrad.ops.shape import permute, reshape, transpose
from catgrad.ops.slices import concat, flip, pad, slice, split
from catgrad.ops.softmax import log_softmax, softmax
from catgrad.ops.transcendental import cos, erf, exp, expm1, log, log1p, sin, sqrt, tanh
from catgrad.ops.window import window
from catgrad.structural import stop_gradient, zeros_like

__all__ = [
    "absolute", "adaptive_avg_pool", "adaptive_max_pool", "add", "argmax", "attention", "avg_pool",
    "batch_norm", "broadcast", "cast", "checkpoint", "concat", "cond", "contract", "conv",
    "conv_transpose", "cos", "divide", "elu", "equal", "erf", "exp", "expm1", "flip", "floor",
    "gather", "gelu", "gelu_tanh", "global_avg_pool", "greater", "greater_equal", "group_norm",
    "iota", "layer_norm", "leaky_relu", "less", "less_equal", "log", "log1p", "log_softmax",
    "matmul", "max", "max_pool", "maximum", "mean", "minimum", "multiply", "negate", "number_of",
    "pad", "permute", "power", "random_bits", "random_normal", "random_uniform", "relu", "repeat",
    "reshape", "rms_norm", "rotary", "round", "scan", "scatter_add", "select", "sigmoid", "sign",
    "silu", "sin", "slice", "softmax", "softplus", "split", "sqrt", "square", "stop_gradient",
    "subtract", "sum", "tanh", "transpose", "upsample_nearest", "window", "zeros_like",
]  # fmt: skip
