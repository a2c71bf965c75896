"""Normalisation layers, with scale and shift."""

from __future__ import annotations

from catgrad import ops
from catgrad.frontends.torch.registry import aten
from catgrad.ops.batch_norm import BatchNorm, copied, moments, others, several, tracked
from catgrad.terms.structural import Assume, Constant, stop_gradient
from catgrad.terms.var import Var
from catgrad.types import NdArrayType


@aten("layer_norm.default")
def layer_norm(
    x: Var, shape: list[int], weight: Var | None = None, bias: Var | None = None, eps: float = 1e-5,
    cudnn: bool = True,
) -> Var:  # fmt: skip
    """Layer normalisation: (x - μ) / √(σ² + ε) · w + b over the last axes."""
    if weight is not None and bias is not None:
        return ops.affine_layer_norm(x, weight, bias, eps)
    y = ops.layer_norm(x, len(shape), eps)
    y = y if weight is None else y * ops.broadcast_to(weight, y.shape)
    return y if bias is None else y + ops.broadcast_to(bias, y.shape)


@aten("rms_norm.default")
def rms_norm(x: Var, shape: list[int], weight: Var | None = None, eps: float | None = None) -> Var:
    """RMS normalisation: x / √(mean x² + ε) · w over the last axes; ε is by default that of the dtype."""
    y = ops.rms_norm(x, len(shape), float(x.dtype.limits.eps) if eps is None else eps)
    return y if weight is None else y * ops.broadcast_to(weight, y.shape)


@aten("group_norm.default")
def group_norm(
    x: Var, groups: int, weight: Var | None = None, bias: Var | None = None, eps: float = 1e-5,
    cudnn: bool = True,
) -> Var:  # fmt: skip
    """Group normalisation: (x - μ) / √(σ² + ε) · w + b over each group of channels."""
    return _by_channel(ops.group_norm(x, groups, eps), weight, bias)


@aten("_native_batch_norm_legit_no_training.default")
def batch_norm(
    x: Var, weight: Var | None, bias: Var | None, mean: Var, variance: Var, momentum: float, eps: float
) -> tuple[Var, Var, Var]:
    """Batch normalisation with constant running statistics: (x - μ) / √(σ² + ε) · w + b, and empty arrays."""
    y = (x - copied(mean, x)) * copied(ops.rsqrt(variance + eps), x)
    none = Constant(NdArrayType((0,), x.dtype), 0)()
    return _by_channel(y, weight, bias), none, none


@aten("_native_batch_norm_legit_functional.default")
def batch_norm_in_training(
    x: Var, weight: Var | None, bias: Var | None, mean: Var, variance: Var, training: bool, momentum: float,
    eps: float,
) -> tuple[Var, ...]:  # fmt: skip
    """Batch normalisation by statistics of the batch, those, and the new running statistics."""
    if not training:
        return (*batch_norm(x, weight, bias, mean, variance, momentum, eps), mean, variance)
    y = _by_channel(BatchNorm(eps)(x, mean, variance), weight, bias)
    return y, *_statistics(x, eps), *tracked(stop_gradient(x), mean, variance, momentum)


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_of_batch(
    x: Var, weight: Var | None, bias: Var | None, training: bool, momentum: float, eps: float
) -> tuple[Var, Var, Var]:
    """Batch normalisation by statistics of the batch, for a layer that tracks none, and those."""
    [x] = Assume(1, several(x.type)).apply(x)
    centred, variance = moments(x)
    y = _by_channel(centred * copied(ops.rsqrt(variance + eps), x), weight, bias)
    return y, *_statistics(x, eps)


def _statistics(x: Var, eps: float) -> tuple[Var, Var]:
    """Return the mean of each channel, and 1 / √(σ² + ε), whose cotangents PyTorch ignores."""
    fixed, axes = stop_gradient(x), others(x)
    _, variance = moments(fixed)
    return ops.mean(fixed, axes), ops.rsqrt(variance + eps)


def _by_channel(y: Var, weight: Var | None, bias: Var | None) -> Var:
    """Scale and shift each channel: y · w + b."""
    y = y if weight is None else y * copied(weight, y)
    return y if bias is None else y + copied(bias, y)
