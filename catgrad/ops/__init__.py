"""The operations. Every module here declares some; importing the package registers them all."""

# The names are those of the literature and of NumPy, some of which shadow builtins.
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
    reciprocal,
    round,
    sign,
    square,
    subtract,
)
from catgrad.ops.attention import attention
from catgrad.ops.batch_norm import batch_norm
from catgrad.ops.bits import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    shift_left,
    shift_right,
)
from catgrad.ops.bounds import clamp, fmod
from catgrad.ops.cast import cast
from catgrad.ops.compare import (
    equal,
    greater,
    greater_equal,
    is_finite,
    is_nan,
    less,
    less_equal,
    not_equal,
    select,
)
from catgrad.ops.contract import contract, matmul
from catgrad.ops.control import checkpoint, cond, repeat, scan
from catgrad.ops.conv import conv, conv_transpose
from catgrad.ops.cumulative import cumsum
from catgrad.ops.extrema import argmax, argmin, iota, max, min
from catgrad.ops.gather import gather, scatter_add
from catgrad.ops.literal import array
from catgrad.ops.logic import all, any, logical_and, logical_not, logical_or
from catgrad.ops.norms import affine_layer_norm, group_norm, layer_norm, rms_norm
from catgrad.ops.pool import avg_pool, global_avg_pool, max_pool
from catgrad.ops.power import power
from catgrad.ops.random import random_bits, random_normal, random_uniform
from catgrad.ops.reduce import broadcast, mean, number_of, sum
from catgrad.ops.resize import adaptive_avg_pool, adaptive_max_pool, upsample_nearest
from catgrad.ops.rotary import rotary
from catgrad.ops.shape import expand_dims, permute, reshape, squeeze, transpose
from catgrad.ops.slices import concat, flip, pad, slice, split, stack
from catgrad.ops.softmax import log_softmax, logsumexp, softmax
from catgrad.ops.sort import argsort, sort, top_k
from catgrad.ops.take import scatter_add_along_axis, take, take_along_axis
from catgrad.ops.transcendental import cos, erf, exp, expm1, log, log1p, rsqrt, sin, sqrt, tanh
from catgrad.ops.whole import floor_divide, remainder
from catgrad.ops.window import window
from catgrad.terms.structural import stop_gradient, zeros_like

__all__ = [
    "absolute", "adaptive_avg_pool", "adaptive_max_pool", "add", "affine_layer_norm", "all", "any",
    "argmax", "argmin", "argsort", "array", "attention", "avg_pool", "batch_norm", "bitwise_and",
    "bitwise_not", "bitwise_or", "bitwise_xor", "broadcast", "cast", "checkpoint", "clamp", "concat",
    "cond", "contract", "conv", "conv_transpose", "cos", "cumsum", "divide", "elu", "equal", "erf",
    "exp", "expand_dims", "expm1", "flip", "floor", "floor_divide", "fmod", "gather", "gelu",
    "gelu_tanh", "global_avg_pool", "greater", "greater_equal", "group_norm", "iota", "is_finite",
    "is_nan", "layer_norm", "leaky_relu", "less", "less_equal", "log", "log1p", "log_softmax",
    "logical_and", "logical_not", "logical_or", "logsumexp", "matmul", "max", "max_pool", "maximum",
    "mean", "min", "minimum", "multiply", "negate", "not_equal", "number_of", "pad", "permute", "power",
    "random_bits", "random_normal", "random_uniform", "reciprocal", "relu", "remainder", "repeat",
    "reshape", "rms_norm", "rotary", "round", "rsqrt", "scan", "scatter_add", "scatter_add_along_axis",
    "select", "shift_left", "shift_right", "sigmoid", "sign", "silu", "sin", "slice", "softmax",
    "softplus", "sort", "split", "sqrt", "square", "squeeze", "stack", "stop_gradient", "subtract",
    "sum", "take", "take_along_axis", "tanh", "top_k", "transpose", "upsample_nearest", "window",
    "zeros_like",
]  # fmt: skip
