"""Layers as terms: compose them with `>>` and `@`, or apply them to variables inside `build`.

The types are given as for the linear map A ⊗ (B ⇒ C): `A` holds the batch axes, `B` the feature
axes that go in, `C` those that come out. `A + B` is the type of the array with all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from catgrad import ops
from catgrad.build import build
from catgrad.dims import exact_quotient
from catgrad.functors import prefixed
from catgrad.initialisers import ZEROS, Filled, Initialiser, Normal, fan_in_uniform
from catgrad.learn.losses import mse
from catgrad.learn.optimisers import sgd
from catgrad.op import qualified, scope
from catgrad.ops.conv import for_each_axis
from catgrad.state import Parameter
from catgrad.structural import Label
from catgrad.term import Term, compose, obj
from catgrad.types import NdArrayType

Activation = Callable[[Iterable[NdArrayType]], Term]


def parameter(name: str, type: NdArrayType, initial: Initialiser = ZEROS) -> Any:
    """A new parameter as a variable, named by the dotted name of the current scope and `name`."""
    return Parameter(qualified(name), type, initial)()


def label(name: str, x: Any) -> Any:
    """X under a name for messages, diagrams and emitted code."""
    return Label(qualified(name))(x)


def linear(A: NdArrayType, B: NdArrayType, C: NdArrayType, name: str = "linear") -> Term:
    """Y = x · W, contracted over the axes of B.

    Type:       A + B -> A + C, with the parameter `<name>.weight` of type B + C
    Initial:    U(-1/√n, 1/√n), n the number of elements of B
    Raises:     DtypeError if A, B and C differ in dtype
    """
    with scope(name):
        return build(lambda x: label("out", _product(x, B, C)), [A + B])


def bias(A: NdArrayType, B: NdArrayType, name: str = "") -> Term:
    """Y = x + b, the same b for every element of the batch.

    Type:       A + B -> A + B, with the parameter `bias` of type B, under `name` if it is given
    Initial:    0
    """
    with scope(name):
        return build(lambda x: x + _copies(parameter("bias", B), A + B), [A + B])


def dense(
    A: NdArrayType,
    B: NdArrayType,
    C: NdArrayType,
    activation: Activation | None = None,
    name: str = "dense",
) -> Term:
    """Y = σ(x · W + b), with σ the logistic function unless another is given.

    Type:       A + B -> A + C, with the parameters `<name>.weight : B + C` and `<name>.bias : C`
    Initial:    both U(-1/√n, 1/√n), n the number of elements of B, as in torch.nn.Linear
    Raises:     DtypeError if A, B and C differ in dtype
    """
    outer = (activation or sigmoid)(obj(A + C))

    def forward(x: Any) -> Any:
        product = _product(x, B, C)
        b = _copies(parameter("bias", C, fan_in_uniform(B.size)), A + C)
        return label("out", outer(label("linear", product + b)))

    with scope(name):
        return build(forward, [A + B])


def embedding(A: NdArrayType, rows: int, C: NdArrayType, name: str = "embedding") -> Term:
    """y = W[x]: a row of the table for each whole number.

    Type:       A (int32 or int64) -> A + C, with the parameter `<name>.weight` of type [rows] + C
    Initial:    N(0, 1), as in torch.nn.Embedding
    Raises:     DtypeError unless A is whole; at run time, IndexError for a number outside 0 … rows - 1
    """
    table = NdArrayType((rows, *C.shape), C.dtype)
    with scope(name):
        return build(lambda x: label("out", ops.gather(parameter("weight", table, Normal()), x)), [A])


def layer_norm(A: NdArrayType, B: NdArrayType, epsilon: float = 1e-5, name: str = "norm") -> Term:
    """y = (x - μ) / √(σ² + ε) · w + b, with mean and variance over the axes of B.

    Type:       A + B -> A + B, with the parameters `<name>.weight` and `<name>.bias` of type B
    Initial:    1 and 0, as in torch.nn.LayerNorm
    """

    def forward(x: Any) -> Any:
        weight, shift = parameter("weight", B, Filled(1.0)), parameter("bias", B)
        scaled = ops.layer_norm(x, B.rank, epsilon) * _copies(weight, A + B)
        return label("out", scaled + _copies(shift, A + B))

    with scope(name):
        return build(forward, [A + B])


def rms_norm(A: NdArrayType, B: NdArrayType, epsilon: float = 1e-5, name: str = "norm") -> Term:
    """y = x / √(mean x² + ε) · w, with the mean over the axes of B.

    Type:       A + B -> A + B, with the parameter `<name>.weight` of type B
    Initial:    1, as in torch.nn.RMSNorm
    """
    with scope(name):
        return build(
            lambda x: label(
                "out",
                ops.rms_norm(x, B.rank, epsilon) * _copies(parameter("weight", B, Filled(1.0)), A + B),
            ),
            [A + B],
        )


def conv(
    x: NdArrayType,
    channels: int,
    size: int | tuple[int, ...],
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    name: str = "conv",
) -> Term:
    """y = x ⋆ W + b: cross-correlation in as many axes as x : [N, C, …] has beyond two.

    Type:       T[N, C, …] -> T[N, channels, …], with the parameters `<name>.weight` of type
                [channels, C / groups, size…] and `<name>.bias` of type [channels]
    Initial:    both U(-1/√n, 1/√n), n the number of weights of one output, as in torch.nn.Conv2d
    Raises:     ShapeError if sizes or channels do not fit
    """
    sizes = for_each_axis(size, x.rank - 2)
    kernel = x.with_shape((channels, exact_quotient(x.shape[1], groups), *sizes))
    initial = fan_in_uniform(exact_quotient(kernel.size, channels))

    def forward(image: Any) -> Any:
        y = ops.conv(image, parameter("weight", kernel, initial), stride, padding, dilation, groups)
        shift = parameter("bias", x.with_shape((channels,)), initial)
        others = (0, *range(2, y.type.rank))
        return label("out", y + ops.broadcast(shift, y.shape, others))

    with scope(name):
        return build(forward, [x])


def max_pool(
    x: NdArrayType, size: int | tuple[int, ...], stride: int | tuple[int, ...] | None = None
) -> Term:
    """The greatest element of each window of x : [N, C, …]; windows side by side unless a stride is given."""
    return build(lambda image: ops.max_pool(image, size, stride), [x])


def flatten(x: NdArrayType) -> Term:
    """All axes but the first as one."""
    return build(lambda image: ops.reshape(image, x.shape[0], -1), [x])


def sequential(*layers: Term) -> Term:
    """f₁ ; … ; fₙ, with the names of the k-th layer's parameters under `k`, as in torch.nn.Sequential.

    Layers made with `name=""` have just torch's names: `0.weight`, `0.bias`, `2.weight`, ….

    Raises: ShapeError if the target of one layer is not the source of the next.
    """
    return compose(*(prefixed(str(k), layer) for k, layer in enumerate(layers)))


def named(name: str, layer: Term) -> Term:
    """The layer with `name.` before the names of its parameters."""
    return prefixed(name, layer)


def pointwise(function: Callable[[Any], Any]) -> Activation:
    """A function on one variable as a layer at every object: A₁ ⊗ … ⊗ Aₙ to itself, wire by wire."""

    def layer(types: NdArrayType | Iterable[NdArrayType]) -> Term:
        every = [types] if isinstance(types, NdArrayType) else list(types)
        return build(lambda *xs: [function(x) for x in xs], every)

    layer.__doc__ = f"{function.__doc__ or type(function).__doc__}"
    return layer


sigmoid = pointwise(ops.sigmoid)
tanh = pointwise(ops.tanh)
relu = pointwise(ops.relu)
leaky_relu = pointwise(ops.leaky_relu)
elu = pointwise(ops.elu)
softplus = pointwise(ops.softplus)
silu = pointwise(ops.silu)
gelu = pointwise(ops.gelu)
softmax = pointwise(ops.softmax)
log_softmax = pointwise(ops.log_softmax)


def _product(x: Any, B: NdArrayType, C: NdArrayType) -> Any:
    return ops.contract(x, parameter("weight", B + C, fan_in_uniform(B.size)), B.rank)


def _copies(x: Any, type: NdArrayType) -> Any:
    return ops.broadcast(x, type.shape)


__all__ = [
    "bias", "conv", "dense", "elu", "embedding", "flatten", "gelu", "label", "layer_norm", "leaky_relu",
    "linear", "log_softmax", "max_pool", "mse", "named", "parameter", "pointwise", "relu", "rms_norm",
    "sequential", "sgd", "sigmoid", "silu", "softmax", "softplus", "tanh",
]  # fmt: skip
