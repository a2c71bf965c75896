"""Reverse derivatives of PyTorch's kernels, as those of the operations that the front end has for them.

A module that calls torch.autograd.grad is traced with them. What a kernel keeps for its reverse, such as the
mean of a norm, is a function of its arguments and differentiated as such, so that it is computed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from catgrad import ops
from catgrad.frontends.torch.aten.convolutions import convolution
from catgrad.frontends.torch.aten.normalisation import batch_norm, batch_norm_of_batch
from catgrad.frontends.torch.registry import aten, real
from catgrad.terms.var import Var

Cotangents: TypeAlias = list[Var | None]
"""The cotangents of arguments, of which None has none."""


def _pulled(function: Callable[..., Var], arguments: Sequence[Var | None], cotangent: Var) -> Cotangents:
    """Return the cotangents of the arguments; those that are None have none."""
    given = [k for k, x in enumerate(arguments) if x is not None]

    def of_given(*x: Var) -> Var:
        values = dict(zip(given, x, strict=True))
        return function(*(values.get(k) for k in range(len(arguments))))

    results = ops.vjp(of_given)(tuple(x for x in arguments if x is not None), cotangent)
    found = dict(zip(given, results, strict=True))
    return [found.get(k) for k in range(len(arguments))]


def _read(mask: list[bool], *results: Var | None) -> Cotangents:
    """Return the results that a mask tells are read, and None for the others."""
    return [result if is_read else None for result, is_read in zip(results, mask, strict=True)]


def _by_channel(dy: Var) -> Var:
    """Sum over all axes but that of the channels: the cotangent of a bias."""
    return ops.sum(dy, (0, *range(2, dy.type.rank)))


@aten("convolution_backward.default")
def convolution_backward(dy: Var, x: Var, weight: Var, bias_sizes: Any, *options: Any) -> Cotangents:
    """Reverse derivative of a convolution: by x, by its weight and by its bias."""
    *given, mask = options
    dx, dw = _pulled(lambda x, w: convolution(x, w, None, *given), [x, weight], dy)
    return _read(mask, dx, dw, _by_channel(dy))


@aten("native_layer_norm_backward.default")
def layer_norm_backward(
    dy: Var, x: Var, shape: list[int], mean: Var, scale: Var, weight: Var | None, bias: Var | None,
    mask: list[bool],
) -> Cotangents:  # fmt: skip
    """Reverse derivative of layer normalisation: by x, by its weight and by its bias.

    The kernel is not given ε, which is what 1 / scale² has beyond the variance.
    """
    axes = tuple(range(x.type.rank - len(shape), x.type.rank))
    inverse = ops.squeeze(ops.reciprocal(ops.square(scale)), axes)

    def forward(x: Var, w: Var | None, b: Var | None) -> Var:
        centred = x - ops.broadcast(ops.mean(x, axes), x.shape, axes)
        variance = ops.mean(ops.square(centred), axes)
        beyond = ops.stop_gradient(inverse - variance)
        y = centred * ops.broadcast(ops.rsqrt(variance + beyond), x.shape, axes)
        y = y if w is None else y * ops.broadcast_to(w, y.shape)
        return y if b is None else y + ops.broadcast_to(b, y.shape)

    return _read(mask, *_pulled(forward, [x, weight, bias], dy))


@aten("native_batch_norm_backward.default")
def batch_norm_backward(
    dy: Var, x: Var, weight: Var | None, mean: Var, variance: Var, saved: Var | None, scale: Var | None,
    train: bool, eps: float, mask: list[bool],
) -> Cotangents:  # fmt: skip
    """Reverse derivative of batch normalisation: by x, by its weight and by its bias."""

    def forward(x: Var, w: Var | None) -> Var:
        if train:
            return batch_norm_of_batch(x, w, None, True, 0.0, eps)[0]
        return batch_norm(x, w, None, mean, variance, 0.0, eps)[0]

    return _read(mask, *_pulled(forward, [x, weight], dy), _by_channel(dy))


def _of_pool(forward: str, backward: str, with_places: bool = False) -> None:
    """Register the reverse derivative of a pooling operation, whose other arguments are numbers."""

    @aten(backward)
    def pool_backward(dy: Var, x: Var, *options: Any) -> Var | None:
        given = options[:-1] if with_places else options
        return _pulled(lambda x: real(forward)(x, *given), [x], dy)[0]


for _rank in (2, 3):
    _of_pool(f"avg_pool{_rank}d.default", f"avg_pool{_rank}d_backward.default")
    _of_pool(f"max_pool{_rank}d.default", f"max_pool{_rank}d_with_indices_backward.default", with_places=True)
