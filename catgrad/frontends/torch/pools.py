"""Pooling and nearest-neighbour upsampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catgrad import ops
from catgrad.frontends.torch.images import Numbers, batched, each
from catgrad.frontends.torch.registry import aten, require


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
        _require_windows_inside(ceil_mode, x, k, s, p, (1,) * spatial)
        require(
            divisor_override is None,
            "a mean must be divided by the number of its elements",
            f"divisor_override is {divisor_override}",
            "multiply the result by a factor",
        )
        return batched(lambda x: ops.avg_pool(x, k, s, p, count_include_pad), x, spatial)

    def _adaptive(kind: str, pool: Callable[[Any, Any], Any], returns: Callable[[Any], Any]) -> None:
        @aten(f"adaptive_{kind}_pool{spatial}d.default")
        def adaptive(x: Any, size: Numbers) -> Any:
            return returns(batched(lambda x: pool(x, each(size, spatial)), x, spatial))

    _adaptive("avg", ops.adaptive_avg_pool, lambda y: y)
    _adaptive("max", ops.adaptive_max_pool, lambda y: (y, None))

    @aten(f"upsample_nearest{spatial}d.vec")
    def upsample(x: Any, size: Numbers | None, factors: Any = None) -> Any:
        sizes = x.shape[2:]
        if size is None:
            wanted = tuple(int(n * factor) for n, factor in zip(sizes, factors, strict=True))
        else:
            wanted = each(size, spatial)
        by = tuple(m // n for m, n in zip(wanted, sizes, strict=True))
        require(
            all(m == n * k for m, n, k in zip(wanted, sizes, by, strict=True)),
            "an image must be enlarged by integer factors",
            f"{x.type} becomes {wanted}",
            "choose another size",
        )
        return ops.upsample_nearest(x, by)


for _spatial in (1, 2, 3):
    _pools(_spatial)


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
