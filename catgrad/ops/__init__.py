"""The operations. Every module here declares some; importing the package registers them all."""

# The names are those of the literature and of NumPy, some of which shadow builtins.
from typing import TYPE_CHECKING

from catgrad.errors import no_attribute
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
from catgrad.ops.bessel import bessel_i0, bessel_i0e, bessel_i1, bessel_i1e
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
from catgrad.ops.derivatives import grad, hvp, jvp, vjp
from catgrad.ops.diagonal import diagonal, diagonal_matrix, lower, upper, with_diagonal
from catgrad.ops.entropy import binary_cross_entropy, entropy
from catgrad.ops.error_function import erfc, erfcx, erfinv, normal_quantile
from catgrad.ops.extrema import argmax, argmin, iota, max, min
from catgrad.ops.gamma import digamma, log_gamma, polygamma
from catgrad.ops.gather import gather, scatter_add
from catgrad.ops.hyperbolic import arcosh, arsinh, artanh, cosh, sinh
from catgrad.ops.linalg import cholesky, determinant, inverse, log_determinant, solve, solve_triangular
from catgrad.ops.literal import array
from catgrad.ops.logic import all, any, logical_and, logical_not, logical_or
from catgrad.ops.norms import affine_layer_norm, group_norm, layer_norm, rms_norm
from catgrad.ops.pool import avg_pool, global_avg_pool, max_pool
from catgrad.ops.power import power
from catgrad.ops.prefix import cummax, cummin, cumprod, logaddexp, logcumsumexp, prod
from catgrad.ops.random import random_bits, random_normal, random_uniform
from catgrad.ops.reduce import broadcast, mean, number_of, sum
from catgrad.ops.resize import adaptive_avg_pool, adaptive_max_pool, upsample_nearest
from catgrad.ops.rotary import rotary
from catgrad.ops.scatter import put, put_along_axis
from catgrad.ops.shape import expand_dims, permute, reshape, squeeze, transpose
from catgrad.ops.slices import concat, flip, pad, slice, split, stack
from catgrad.ops.softmax import log_softmax, logsumexp, softmax
from catgrad.ops.sort import argsort, sort, top_k
from catgrad.ops.take import scatter_add_along_axis, take, take_along_axis
from catgrad.ops.transcendental import cos, erf, exp, expm1, log, log1p, rsqrt, sin, sqrt, tanh
from catgrad.ops.trigonometric import arccos, arcsin, arctan, arctan2
from catgrad.ops.whole import floor_divide, remainder
from catgrad.ops.window import window
from catgrad.terms.op import refuses_arrays
from catgrad.terms.structural import stop_gradient, zeros_like

__all__ = [
    "absolute", "adaptive_avg_pool", "adaptive_max_pool", "add", "affine_layer_norm", "all", "any", "arccos",
    "arcosh", "arcsin", "arctan", "arctan2", "argmax", "argmin", "argsort", "array", "arsinh", "artanh",
    "attention", "avg_pool", "batch_norm", "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e",
    "binary_cross_entropy", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "broadcast", "cast",
    "checkpoint", "cholesky", "clamp", "concat", "cond", "contract", "conv", "conv_transpose", "cos", "cosh",
    "cummax", "cummin", "cumprod", "cumsum", "determinant", "diagonal", "diagonal_matrix", "digamma",
    "divide", "elu", "entropy", "equal", "erf", "erfc", "erfcx", "erfinv", "exp", "expand_dims", "expm1",
    "flip", "floor", "floor_divide", "fmod", "gather", "gelu", "gelu_tanh", "global_avg_pool", "grad",
    "greater", "greater_equal", "group_norm", "hvp", "inverse", "iota", "is_finite", "is_nan", "jvp",
    "layer_norm", "leaky_relu", "less", "less_equal", "log", "log1p", "log_determinant", "log_gamma",
    "log_softmax", "logaddexp", "logcumsumexp", "logical_and", "logical_not", "logical_or", "logsumexp",
    "lower", "matmul", "max", "max_pool", "maximum", "mean", "min", "minimum", "multiply", "negate",
    "normal_quantile", "not_equal", "number_of", "pad", "permute", "polygamma", "power", "prod", "put",
    "put_along_axis", "random_bits", "random_normal", "random_uniform", "reciprocal", "relu", "remainder",
    "repeat", "reshape", "rms_norm", "rotary", "round", "rsqrt", "scan", "scatter_add",
    "scatter_add_along_axis", "select", "shift_left", "shift_right", "sigmoid", "sign", "silu", "sin", "sinh",
    "slice", "softmax", "softplus", "solve", "solve_triangular", "sort", "split", "sqrt", "square", "squeeze",
    "stack", "stop_gradient", "subtract", "sum", "take", "take_along_axis", "tanh", "top_k", "transpose",
    "upper", "upsample_nearest", "vjp", "window", "with_diagonal", "zeros_like",
]  # fmt: skip

for _name in __all__:
    globals()[_name] = refuses_arrays(globals()[_name])


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # or it would take every name for one of the module
    __getattr__ = no_attribute("catgrad.ops", __all__)
