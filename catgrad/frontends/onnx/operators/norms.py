"""Normalisation, and dropout in evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from catgrad import ops
from catgrad.frontends.onnx.operators.operands import along, axis_of
from catgrad.frontends.onnx.operators.reductions import reduced
from catgrad.frontends.onnx.registry import onnx, require
from catgrad.ops.power import root
from catgrad.ops.shape import normalised
from catgrad.terms.structural import Constant
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype, NdArrayType


@onnx("BatchNormalization", since=(9, 14, 15))
def batch_norm(
    x: Var, scale: Var, shift: Var, mean: Var, variance: Var, *, epsilon: float = 1e-5, momentum: float = 0.9,
    training_mode: int = 0, results: int = 1,
) -> Var | tuple[Var, ...]:  # fmt: skip
    """Normalise each channel by given statistics, or in training by those of the batch."""
    axes = [k for k in range(x.type.rank) if k != 1]
    running = mean, variance
    if training_mode:
        mean = ops.mean(x, axes)
        variance = ops.mean(ops.square(x - along(mean, x.shape, 1)), axes)
    deviation = ops.rsqrt(ops.cast(variance, x.dtype) + epsilon)
    scaled = ops.cast(scale, x.dtype) * deviation
    centred = x - along(ops.cast(mean, x.dtype), x.shape, 1)
    y = centred * along(scaled, x.shape, 1) + along(ops.cast(shift, x.dtype), x.shape, 1)
    if results == 1:
        return y
    new = (ops.cast(each, old.dtype) for each, old in zip((mean, variance), running, strict=True))
    return y, *(old * momentum + each * (1 - momentum) for each, old in zip(new, running, strict=True))


@onnx("InstanceNormalization", since=(6, 22))
def instance_norm(x: Var, scale: Var, shift: Var, *, epsilon: float = 1e-5) -> Var:
    """Normalise each channel of each image."""
    y = ops.layer_norm(x, x.type.rank - 2, epsilon)
    return y * along(scale, x.shape, 1) + along(shift, x.shape, 1)


@onnx("GroupNormalization", since=21)
def group_norm(
    x: Var, scale: Var, shift: Var, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Var:
    """Normalise groups of channels."""
    y = ops.group_norm(x, num_groups, epsilon)
    return y * along(scale, x.shape, 1) + along(shift, x.shape, 1)


@onnx("LayerNormalization", since=17)
def layer_norm(
    x: Var,
    scale: Var,
    shift: Var | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    results: int = 1,
) -> Var | tuple[Var, ...]:
    """Normalise the last axes; further results are the mean and the inverse deviation."""
    axes = tuple(range(axis_of(x, axis), x.type.rank))
    y = ops.layer_norm(x, len(axes), epsilon) * ops.broadcast_to(scale, x.shape)
    y = y if shift is None else y + ops.broadcast_to(shift, x.shape)
    if results == 1:
        return y
    mean = reduced(ops.mean, x, axes, 1)
    squares = reduced(ops.mean, ops.square(x - ops.broadcast_to(mean, x.shape)), axes, 1)
    return y, mean, ops.rsqrt(squares + epsilon)


@onnx("MeanVarianceNormalization", since=13)
def mean_variance_norm(x: Var, *, axes: Sequence[int] = (0, 2, 3)) -> Var:
    """(x - μ) / (σ + 10⁻⁹) over axes."""
    own = normalised(axes, x.type.rank)
    centred = x - ops.broadcast_to(reduced(ops.mean, x, own, 1), x.shape)
    variance = reduced(ops.mean, ops.square(centred), own, 1)
    return centred / (ops.broadcast_to(root(variance), x.shape) + 1e-9)


@onnx("LpNormalization", since=(1, 22))
def lp_norm(x: Var, *, axis: int = -1, p: int = 2) -> Var:
    """Divide by the p-norm along an axis; 0 where that is 0."""
    axes = (axis_of(x, axis),)
    powers = ops.absolute(x) if p == 1 else ops.square(x)
    total = reduced(ops.sum, powers, axes, 1)
    norm = ops.broadcast_to(total if p == 1 else root(total), x.shape)
    none = norm == 0
    return ops.select(none, norm, x / ops.select(none, norm + 1, norm))


@onnx("LRN", since=13)
def local_response(x: Var, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Var:
    """Divide by a power of the sum of squares over neighbouring channels."""
    before = (size - 1) // 2
    margins = [(0, 0)] * x.type.rank
    margins[1] = (before, size - 1 - before)
    around = ops.window(ops.pad(ops.square(x), margins), (1,), (size,), (1,), (1,))
    return x / (bias + alpha / size * ops.sum(around, x.type.rank)) ** beta


@onnx("Dropout", since=(13, 22), static="ratio training_mode")
def dropout(
    x: Var, ratio: Array | None = None, training_mode: Array | None = None, *, seed: int = 0, results: int = 1
) -> Var | tuple[Var, ...]:
    """Return the array, and a mask of what is kept."""
    drops = training_mode is not None and training_mode.item() and (ratio is None or ratio.item())
    require(
        not drops, "dropout must be in evaluation", "training_mode is true", "export the model in evaluation"
    )
    return (x, Constant(NdArrayType(x.shape, Dtype.bool), 1)()) if results > 1 else x
