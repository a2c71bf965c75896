"""Normalisation layers with the statistics that PyTorch's kernels return."""

from __future__ import annotations

from math import prod

from catgrad import ops
from catgrad.frontends.torch.aten.normalisation import group_norm, layer_norm, rms_norm
from catgrad.frontends.torch.registry import aten
from catgrad.terms.var import Var


def _statistics(x: Var, axes: tuple[int, ...], eps: float) -> tuple[Var, Var]:
    """Return the mean over axes, and 1 / √(σ² + ε)."""
    mean = ops.mean(x, axes)
    centred = x - ops.broadcast(mean, x.shape, axes)
    return mean, ops.rsqrt(ops.mean(ops.square(centred), axes) + eps)


@aten("native_layer_norm.default")
def native_layer_norm(
    x: Var, shape: list[int], weight: Var | None, bias: Var | None, eps: float
) -> tuple[Var, Var, Var]:
    """Layer normalisation, with the mean and 1 / √(σ² + ε) of each row."""
    axes = tuple(range(x.type.rank - len(shape), x.type.rank))
    fixed = ops.stop_gradient(x)  # PyTorch ignores cotangents of these statistics, unlike those of groups
    mean, scale = (ops.expand_dims(s, axes) for s in _statistics(fixed, axes, eps))
    return layer_norm(x, shape, weight, bias, eps), mean, scale


@aten("native_group_norm.default")
def native_group_norm(
    x: Var, weight: Var | None, bias: Var | None, n: int, c: int, places: int, groups: int, eps: float
) -> tuple[Var, Var, Var]:
    """Group normalisation, with the mean and 1 / √(σ² + ε) of each group."""
    rows = ops.reshape(x, x.shape[0], groups, (c // groups) * prod(x.shape[2:]))
    return (group_norm(x, groups, weight, bias, eps), *_statistics(rows, (2,), eps))


@aten("_fused_rms_norm.default")
def fused_rms_norm(x: Var, shape: list[int], weight: Var | None, eps: float | None) -> tuple[Var, Var]:
    """RMS normalisation, with 1 / √(mean x² + ε) of each row."""
    axes = tuple(range(x.type.rank - len(shape), x.type.rank))
    epsilon = float(x.dtype.limits.eps) if eps is None else eps
    scale = ops.rsqrt(ops.mean(ops.square(x), axes) + epsilon)
    return rms_norm(x, shape, weight, eps), ops.expand_dims(scale, axes)
