"""Draws from distributions, as functions of uniform and normal numbers: no gradient flows to parameters."""

from __future__ import annotations

from math import log1p, pi

from catgrad import ops
from catgrad.dims import Dim, Size
from catgrad.frontends.torch.aten.creation import _dtype
from catgrad.frontends.torch.aten.operands import TorchDtype, at, common_shape
from catgrad.frontends.torch.aten.randomness import normal_noise, uniform_noise
from catgrad.frontends.torch.registry import aten, require
from catgrad.ops.shape import Shape
from catgrad.terms.structural import Constant, stop_gradient
from catgrad.terms.var import Var
from catgrad.types import Dtype

MAX_RANGE = 2**32
"""The most whole numbers that one draw of 32 bits tells apart."""


@aten("uniform.default", is_random=True)
def uniform(x: Var, low: float = 0.0, high: float = 1.0) -> Var:
    """Uniform numbers in [low, high), in the shape of x."""
    return low + (high - low) * uniform_noise(x.shape, x.dtype)


@aten("normal_functional.default", is_random=True)
def normal_like(x: Var, mean: float = 0.0, std: float = 1.0) -> Var:
    """Normal numbers, in the shape of x."""
    return mean + std * normal_noise(x.shape, x.dtype)


@aten("normal.float_float", is_random=True)
def normal(mean: float, std: float, size: list[Size], dtype: TorchDtype | None = None) -> Var:
    """Normal numbers, in this shape."""
    return mean + std * normal_noise(tuple(size), _dtype(dtype, 1.0))


@aten("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor", is_random=True)
def normal_of_arrays(mean: Var | float, std: Var | float = 1.0) -> Var:
    """Normal numbers, each with a mean and a deviation of its own."""
    arrays = [x for x in (mean, std) if not isinstance(x, float | int)]
    shape, dtype = common_shape(*(x.shape for x in arrays)), arrays[0].dtype
    centre, width = (at(x, shape, dtype) for x in (mean, std))
    return stop_gradient(centre) + stop_gradient(width) * normal_noise(shape, dtype)


@aten("log_normal.default", is_random=True)
def log_normal(x: Var, mean: float = 1.0, std: float = 2.0) -> Var:
    """Numbers whose logarithms are normal, in the shape of x."""
    return ops.exp(normal_like(x, mean, std))


@aten("exponential.default", is_random=True)
def exponential(x: Var, rate: float = 1.0) -> Var:
    """Exponential numbers above 0, in the shape of x."""
    return ops.cast(_exponential(x.shape, x.dtype.wide) / rate, x.dtype)


@aten("geometric.default", is_random=True)
def geometric(x: Var, p: float) -> Var:
    """Numbers of trials up to the first success, of probability p, in the shape of x."""
    trials = ops.floor(_exponential(x.shape, Dtype.float64) / -log1p(-p)) + 1
    return ops.cast(trials, x.dtype)


@aten("cauchy.default", is_random=True)
def cauchy(x: Var, median: float = 0.0, sigma: float = 1.0) -> Var:
    """Numbers of Cauchy's distribution, in the shape of x."""
    turn = pi * (uniform_noise(x.shape, x.dtype.wide) - 0.5)
    return ops.cast(median + sigma * (ops.sin(turn) / ops.cos(turn)), x.dtype)


@aten("randint.low", is_random=True)
def integers(low: Size, high: Size, size: list[Size], dtype: TorchDtype | None = None) -> Var:
    """Whole numbers from low to high - 1, all as likely."""
    return ops.cast(_integers(low, high, tuple(size)), _dtype(dtype, 1))


aten("randint.default", is_random=True)(lambda high, size, dtype=None: integers(0, high, size, dtype))


@aten("randint_like.low_dtype", is_random=True)
def integers_like(x: Var, low: Size, high: Size, dtype: TorchDtype | None = None) -> Var:
    """Whole numbers from low to high - 1, in the shape of x."""
    return ops.cast(_integers(low, high, x.shape), x.dtype if dtype is None else _dtype(dtype))


aten("randint_like.default", is_random=True)(lambda x, high, dtype=None: integers_like(x, 0, high, dtype))


@aten("randperm.default", is_random=True)
def permutation(n: Size, dtype: TorchDtype | None = None) -> Var:
    """The numbers below n in random order: the places that sort random numbers."""
    return ops.cast(ops.argsort(uniform_noise((n,), Dtype.float64)), _dtype(dtype, 1))


@aten("multinomial.default", is_random=True)
def multinomial(p: Var, count: int, replacement: bool = False) -> Var:
    """Indices of categories with probabilities proportional to p: those with the greatest pᵢ / Eᵢ.

    The E are exponential numbers; draws with replacement have new ones each.
    """
    *rows, categories = p.shape
    shape = (*rows, count, categories) if replacement else p.shape
    weights = ops.cast(stop_gradient(p), p.dtype.wide)
    if not replacement:
        return ops.top_k(weights / _exponential(shape, weights.dtype), count)[1]
    wide = ops.broadcast(weights, shape, [len(rows)])
    return ops.argmax(wide / _exponential(shape, weights.dtype))


def _exponential(shape: Shape, dtype: Dtype) -> Var:
    """Exponential numbers of mean 1; in place of 0, half of the least other one."""
    draws = -ops.log1p(-uniform_noise(shape, dtype))
    least = Constant(draws.type, 2.0 ** -min(int(dtype.limits.nmant) + 2, 33))()
    return ops.maximum(draws, least)


def _integers(low: Size, high: Size, shape: Shape) -> Var:
    """Whole numbers from low to high - 1."""
    width = high - low
    require(
        isinstance(width, Dim) or 0 < width <= MAX_RANGE,
        f"a random integer must be one of at most {MAX_RANGE} numbers",
        f"it goes from {low} to {high}",
        "draw two, and combine them",
    )
    places = at(width, shape, Dtype.float64) * uniform_noise(shape, Dtype.float64)
    return ops.cast(ops.floor(places), Dtype.int64) + at(low, shape, Dtype.int64)
