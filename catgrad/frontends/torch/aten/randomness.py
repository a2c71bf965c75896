"""Random arrays, with the project's own random bits: dropout, Bernoulli, uniform and normal numbers."""

from __future__ import annotations

from collections.abc import Callable

from catgrad import ops
from catgrad.dims import Size
from catgrad.frontends.torch.aten.creation import _dtype, full
from catgrad.frontends.torch.aten.operands import TorchDtype
from catgrad.frontends.torch.registry import aten
from catgrad.ops.random import Dropout, random_normal, random_uniform, stream_of
from catgrad.ops.shape import Shape
from catgrad.terms.op import qualified
from catgrad.terms.state import DRAWS, SEED
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Dtype, NdArrayType


def dropped(x: Var, rate: float, name: str = "dropout") -> Var:
    """Dropout: x / (1 - rate) with probability 1 - rate, else 0; the identity in evaluation."""
    if rate == 0:
        return x
    if rate == 1:
        return Constant(x.type, 0)()
    return Dropout(qualified(name), rate)(x, SEED(), DRAWS())


aten("dropout.default", is_random=True)(lambda x, p, train: dropped(x, p) if train else x)


# The mask is not computed.
aten("native_dropout.default", is_random=True)(lambda x, p, train: (dropped(x, p) if train else x, None))


@aten("feature_dropout.default", is_random=True)
def feature_dropout(x: Var, p: float, train: bool) -> Var:
    """Dropout of whole channels."""
    if not train:
        return x
    ones = Constant(x.type.with_shape((*x.shape[:2], *(1 for _ in x.shape[2:]))), 1)()
    return x * ops.broadcast_to(dropped(ones, p), x.shape)


@aten("bernoulli.default", is_random=True)
def bernoulli(p: Var) -> Var:
    """1 with the probability that each element is, else 0."""
    return ops.cast(uniform_noise(p.shape, p.dtype) < p, p.dtype)


@aten("bernoulli.Tensor", is_random=True)
def bernoulli_of(x: Var, p: Var) -> Var:
    """1 with the probability that each element of p is, else 0, in the type of x."""
    return ops.cast(uniform_noise(x.shape, p.dtype) < ops.broadcast_to(p, x.shape), x.dtype)


@aten("bernoulli.p", is_random=True)
def bernoulli_like(x: Var, p: float) -> Var:
    """1 with probability p, else 0, in the shape of x."""
    return bernoulli(Constant(NdArrayType(x.shape, x.dtype), p)())


def _drawn(name: str, noise: Callable[[Shape, Dtype], Var]) -> None:
    """Register the creation of random numbers, by sizes and by an array of the same."""

    @aten(f"{name}.default", is_random=True)
    def of_sizes(size: list[Size], dtype: TorchDtype | None = None) -> Var:
        return noise(tuple(size), _dtype(dtype, 1.0))

    @aten(f"{name}_like.default", is_random=True)
    def like(x: Var, dtype: TorchDtype | None = None) -> Var:
        return noise(x.shape, x.dtype if dtype is None else _dtype(dtype))


@aten("empty.memory_format")
def empty(size: list[Size], dtype: TorchDtype | None = None) -> Var:
    """Zeros, for elements that PyTorch leaves open."""
    return full(size, 0.0 if dtype is None else 0, dtype)


def uniform_noise(shape: Shape, dtype: Dtype) -> Var:
    """Uniform numbers in [0, 1), of the stream of the operation."""
    return random_uniform(shape, stream_of(qualified("noise")), SEED(), DRAWS(), dtype)


def normal_noise(shape: Shape, dtype: Dtype) -> Var:
    """Normal numbers of mean 0 and variance 1, of the stream of the operation."""
    return random_normal(shape, stream_of(qualified("noise")), SEED(), DRAWS(), dtype)


_drawn("rand", uniform_noise)
_drawn("randn", normal_noise)
