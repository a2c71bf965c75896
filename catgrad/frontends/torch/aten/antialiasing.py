"""Antialiased resampling of images: each place averages as many elements as it stands for."""

from __future__ import annotations

from collections.abc import Callable

from catgrad import ops
from catgrad.frontends.torch.registry import aten
from catgrad.ops.contract import Contract
from catgrad.terms.structural import Constant, zeros_like
from catgrad.terms.var import Var

Filter = Callable[[Var], Var]
"""Weights of elements by their distances, in units of the filter's width."""


def _cubic(d: Var, a: float = -0.5) -> Var:
    """Return the weights of cubic convolution, which has a = -1/2 here and -3/4 without antialiasing."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = (((d - 5) * d + 8) * d - 4) * a
    return ops.select(d < 1, near, ops.select(d < 2, far, zeros_like(d)))


def _filtered(x: Var, axis: int, count: int, step: float, weigh: Filter) -> Var:
    """Average the elements along an axis around `count` places, which are a step apart.

    Source: Resample.c of Pillow, which PyTorch follows
    """
    size, k = x.shape[axis], x.type.rank
    shape, axes = (count, size), tuple(range(k))
    centres = ops.broadcast((ops.iota(count, x.dtype) + 0.5) * step, shape, [1])
    elements = ops.broadcast(ops.iota(size, x.dtype) + 0.5, shape, [0])
    weights = weigh(ops.absolute(elements - centres) / max(step, 1.0))
    total = ops.broadcast(ops.sum(weights, 1), shape, [1])
    weights = weights / ops.select(total == 0, Constant(total.type, 1)(), total)
    return Contract(axes, (k, axis), (*axes[:axis], k, *axes[axis + 1 :]))(x, weights)


def _register(name: str, weigh: Filter) -> None:
    @aten(f"_upsample_{name}2d_aa.default")
    def resampled(x: Var, output_size: list[int], align_corners: bool, *factors: float | None) -> Var:
        for axis, count, factor in zip((2, 3), output_size, factors or (None, None), strict=True):
            size = x.shape[axis]
            step = 1 / factor if factor else size / count
            if align_corners:
                step = (size - 1) / (count - 1) if count > 1 else 0.0
            x = _filtered(x, axis, count, step, weigh)
        return x


_register("bilinear", lambda d: ops.relu(1 - d))
_register("bicubic", _cubic)
