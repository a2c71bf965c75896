"""Layers on images x : [N, C, …] with any number of spatial axes: convolution, pooling, resizing."""

from __future__ import annotations

from catgrad import ops
from catgrad.dims import exact_quotient, product
from catgrad.initialisers import Initial, Initialiser, chosen, fan_in_uniform
from catgrad.learn.layers.arguments import checked
from catgrad.learn.layers.parts import label, parameter
from catgrad.ops.convolution import for_each_axis
from catgrad.terms.build import build
from catgrad.terms.op import scope
from catgrad.terms.term import Term
from catgrad.terms.var import Var
from catgrad.types import NdArrayType

Sizes = int | tuple[int, ...]


@checked
def conv(
    x: NdArrayType,
    channels: int,
    size: Sizes,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    name: str = "conv",
    bias: bool = True,
    initial: Initial = fan_in_uniform,
    bias_initial: Initial = fan_in_uniform,
) -> Term:
    """Convolution: y = x ⋆ W + b, the cross-correlation in as many axes as x : [N, C, …] has beyond two.

    Type:       T[N, C, …] -> T[N, channels, …], with the parameters `<name>.weight` of type
                [channels, C / groups, size…] and `<name>.bias` of type [channels]
    Initial:    both U(-1/√n, 1/√n), n the number of weights of one output, as in torch.nn.Conv2d
    Raises:     ShapeError if sizes or channels do not fit
    """
    sizes = for_each_axis(size, x.rank - 2)
    kernel = x.with_shape((channels, exact_quotient(x.shape[1], groups), *sizes))

    def forward(image: Var) -> Var:
        weight = parameter("weight", kernel, _chosen(initial, kernel))
        y = ops.conv(image, weight, stride, padding, dilation, groups)
        return label("out", _shifted(y, kernel, bias_initial) if bias else y)

    with scope(name):
        return build(forward, [x])


@checked
def conv_transpose(
    x: NdArrayType,
    channels: int,
    size: Sizes,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    name: str = "conv_transpose",
    bias: bool = True,
    initial: Initial = fan_in_uniform,
    bias_initial: Initial = fan_in_uniform,
) -> Term:
    """Transposed convolution: y = x ⋆ᵀ W + b, which enlarges images by the stride.

    Type:       T[N, C, …] -> T[N, channels, …], with the parameters `<name>.weight` of type
                [C, channels / groups, size…] and `<name>.bias` of type [channels]
    Initial:    both U(-1/√n, 1/√n), n = channels / groups · size…, as in torch.nn.ConvTranspose2d
    Raises:     ShapeError if sizes or channels do not fit; OptionError unless output_padding < stride
    """
    sizes = for_each_axis(size, x.rank - 2)
    kernel = x.with_shape((x.shape[1], exact_quotient(channels, groups), *sizes))

    def forward(image: Var) -> Var:
        weight = parameter("weight", kernel, _chosen(initial, kernel))
        y = ops.conv_transpose(image, weight, stride, padding, output_padding, groups, dilation)
        return label("out", _shifted(y, kernel, bias_initial) if bias else y)

    with scope(name):
        return build(forward, [x])


@checked
def max_pool(
    x: NdArrayType, size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1
) -> Term:
    """Max pooling of x : [N, C, …]; the stride is the window unless given."""
    return build(lambda image: ops.max_pool(image, size, stride, padding, dilation), [x])


@checked
def avg_pool(
    x: NdArrayType,
    size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    count_include_pad: bool = True,
) -> Term:
    """Average pooling of x : [N, C, …]; the stride is the window unless given."""
    return build(lambda image: ops.avg_pool(image, size, stride, padding, count_include_pad), [x])


@checked
def adaptive_avg_pool(x: NdArrayType, size: Sizes) -> Term:
    """Adaptive average pooling: the means of `size` bins along each spatial axis of x : [N, C, …]."""
    return build(lambda image: ops.adaptive_avg_pool(image, size), [x])


@checked
def adaptive_max_pool(x: NdArrayType, size: Sizes) -> Term:
    """Adaptive max pooling: the maxima of `size` bins along each spatial axis of x : [N, C, …]."""
    return build(lambda image: ops.adaptive_max_pool(image, size), [x])


@checked
def global_avg_pool(x: NdArrayType) -> Term:
    """Global average pooling: the mean of x : [N, C, …] over all spatial axes, [N, C]."""
    return build(ops.global_avg_pool, [x])


@checked
def upsample_nearest(x: NdArrayType, factor: Sizes) -> Term:
    """Nearest-neighbour upsampling: repeat each element of x : [N, C, …] along each spatial axis."""
    return build(lambda image: ops.upsample_nearest(image, factor), [x])


@checked
def flatten(x: NdArrayType) -> Term:
    """Flatten all axes but the first."""
    return build(lambda image: ops.reshape(image, x.shape[0], -1), [x])


def _chosen(initial: Initial, kernel: NdArrayType) -> Initialiser:
    """Return fan-in and fan-out as in torch.nn.init: the second and the first axis, times a window."""
    window = product(kernel.shape[2:])
    return chosen(initial, kernel.shape[1] * window, kernel.shape[0] * window)


def _shifted(y: Var, kernel: NdArrayType, initial: Initial) -> Var:
    shift = parameter("bias", y.type.with_shape(y.shape[1:2]), _chosen(initial, kernel))
    return y + ops.broadcast(shift, y.shape, (0, *range(2, y.type.rank)))
