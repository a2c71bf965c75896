"""Pooling and nearest-neighbour upsampling."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from catgrad import ops
from catgrad.frontends.torch.aten import lengths
from catgrad.frontends.torch.aten.images import Numbers, batched, each
from catgrad.frontends.torch.registry import aten, require
from catgrad.types import Array, Dtype


def _pools(spatial: int) -> None:
    """Register pooling in `spatial` axes."""

    @aten(f"max_pool{spatial}d.default")
    def max_pool(
        x: Any,
        size: Numbers,
        stride: Numbers = (),
        padding: Numbers = 0,
        dilation: Numbers = 1,
        ceil_mode: bool = False,
    ) -> Any:
        k, p, d = (each(numbers, spatial) for numbers in (size, padding, dilation))
        s = each(stride, spatial) or k
        if lengths.is_symbolic(x, spatial):
            return lengths.greatest(lengths.windows(x, -inf, k, s, p, d), spatial)
        _require_windows_inside(ceil_mode, x, k, s, p, d)
        return batched(lambda x: ops.max_pool(x, k, s, p, d), x, spatial)

    @aten(f"avg_pool{spatial}d.default")
    def avg_pool(
        x: Any,
        size: Numbers,
        stride: Numbers = (),
        padding: Numbers = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        k, p = each(size, spatial), each(padding, spatial)
        s = each(stride, spatial) or k
        require(
            divisor_override is None,
            "a mean must be divided by the number of its elements",
            f"divisor_override is {divisor_override}",
            "multiply the result by a factor",
        )
        if lengths.is_symbolic(x, spatial):
            return lengths.averages(x, k, s, p, count_include_pad)
        _require_windows_inside(ceil_mode, x, k, s, p, (1,) * spatial)
        return batched(lambda x: ops.avg_pool(x, k, s, p, count_include_pad), x, spatial)

    def _adaptive(
        kind: str, pool: Callable[[Any, Any], Any], returns: Callable[[Any], Any], *kernels: str
    ) -> None:
        @aten(f"adaptive_{kind}_pool{spatial}d.default", *kernels)
        def adaptive(x: Any, size: Numbers) -> Any:
            if lengths.is_symbolic(x, spatial):
                return returns(lengths.over_all(x, each(size, spatial), kind == "max"))
            return returns(batched(lambda x: pool(x, each(size, spatial)), x, spatial))

    kernels = [f"_adaptive_avg_pool{spatial}d.default"] if spatial > 1 else []
    _adaptive("avg", ops.adaptive_avg_pool, lambda y: y, *kernels)
    _adaptive("max", ops.adaptive_max_pool, lambda y: (y, None))

    @aten(f"upsample_nearest{spatial}d.vec")
    def upsample(x: Any, size: Numbers | None, factors: Any = None) -> Any:
        sizes = x.shape[2:]
        if size is None:
            wanted = tuple(int(n * factor) for n, factor in zip(sizes, factors, strict=True))
        else:
            wanted, factors = each(size, spatial), [None] * spatial
        places = [*map(_nearest, sizes, wanted, factors)]
        by = tuple(m // n for m, n in zip(wanted, sizes, strict=True))
        if all(np.array_equal(p, np.arange(n).repeat(k)) for p, n, k in zip(places, sizes, by, strict=True)):
            return ops.upsample_nearest(x, by)
        for axis, index in enumerate(places):
            x = ops.take(x, ops.array(index, Dtype.int64), axis + 2)
        return x


for _spatial in (1, 2, 3):
    _pools(_spatial)


def _nearest(size: int, wanted: int, factor: float | None) -> Array:
    """Return the places in an axis that nearest-neighbour sampling reads, in float32 as PyTorch."""
    step = np.float32(1 / factor) if factor else np.float32(size) / np.float32(wanted)
    places = np.floor(np.arange(wanted, dtype=np.float32) * step).astype(np.int64)
    result: Array = np.minimum(places, size - 1)
    return result


def _require_windows_inside(
    ceil_mode: bool, x: Any, k: tuple[int, ...], s: tuple[int, ...], p: tuple[int, ...], d: tuple[int, ...]
) -> None:
    """Raise UnsupportedOp if ceil_mode adds a window beyond the padded image."""
    rest = [
        (n + 2 * p - (k - 1) * d - 1) % s
        for n, k, s, p, d in zip(x.shape[-len(k) :], k, s, p, d, strict=True)
    ]
    require(
        not ceil_mode or not any(rest),
        "windows must lie within the padded image",
        f"with ceil_mode the last ones exceed {x.type}",
        "pad the image first, and leave out ceil_mode",
    )
