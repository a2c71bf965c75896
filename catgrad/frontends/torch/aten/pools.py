"""Pooling and nearest-neighbour upsampling."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any

import numpy as np

from catgrad import ops
from catgrad.frontends.torch.aten import lengths
from catgrad.frontends.torch.aten.images import Numbers, batched, each
from catgrad.frontends.torch.registry import aten, require
from catgrad.terms.var import Var
from catgrad.types import Array, Dtype


def max_pool(
    spatial: int,
    x: Var,
    size: Numbers,
    stride: Numbers = (),
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Var:
    """Greatest element of each window of `spatial` axes."""
    k, p, d = (each(numbers, spatial) for numbers in (size, padding, dilation))
    s = each(stride, spatial) or k
    if lengths.is_symbolic(x, spatial):
        return lengths.greatest(lengths.windows(x, -inf, k, s, p, d), spatial)
    _require_windows_inside(ceil_mode, x, k, s, p, d)
    return batched(lambda x: ops.max_pool(x, k, s, p, d), x, spatial)


def avg_pool(
    spatial: int,
    x: Var,
    size: Numbers,
    stride: Numbers = (),
    padding: Numbers = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Var:
    """Mean of each window of `spatial` axes."""
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


def adaptive(spatial: int, is_max: bool, x: Var, size: Numbers) -> Var | tuple[Var, None]:
    """Greatest elements, without their places, or means of as many windows as the result has elements."""
    pool = ops.adaptive_max_pool if is_max else ops.adaptive_avg_pool
    if lengths.is_symbolic(x, spatial):
        y = lengths.over_all(x, each(size, spatial), is_max)
    else:
        y = batched(lambda x: pool(x, each(size, spatial)), x, spatial)
    return (y, None) if is_max else y


def upsample(spatial: int, x: Any, size: Numbers | None, factors: Any = None) -> Any:
    """Nearest element of each place of a larger image."""
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


for _d in (1, 2, 3):
    aten(f"max_pool{_d}d.default")(partial(max_pool, _d))
    aten(f"avg_pool{_d}d.default")(partial(avg_pool, _d))
    aten(f"adaptive_max_pool{_d}d.default")(partial(adaptive, _d, True))
    aten(f"adaptive_avg_pool{_d}d.default", *[f"_adaptive_avg_pool{_d}d.default"][: _d - 1])(
        partial(adaptive, _d, False)
    )
    aten(f"upsample_nearest{_d}d.vec")(partial(upsample, _d))


def _nearest(size: int, wanted: int, factor: float | None) -> Array:
    """Return the places in an axis that nearest-neighbour sampling reads, in float32 as PyTorch."""
    step = np.float32(1 / factor) if factor else np.float32(size) / np.float32(wanted)
    places = np.floor(np.arange(wanted, dtype=np.float32) * step).astype(np.int64)
    result: Array = np.minimum(places, size - 1)
    return result


def _require_windows_inside(
    ceil_mode: bool, x: Var, k: tuple[int, ...], s: tuple[int, ...], p: tuple[int, ...], d: tuple[int, ...]
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
