"""Discrete Fourier transforms, as products with cosines and sines: Cooley and Tukey's factorisation."""

from __future__ import annotations

from math import isqrt, pi, prod
from operator import mul
from typing import Any

from catgrad import ops
from catgrad.frontends.torch.aten.pairs import Pair, bilinear, conjugate, in_parts
from catgrad.frontends.torch.aten.rearranging import narrow
from catgrad.frontends.torch.registry import aten, of_pairs, require
from catgrad.ops.contract import Contract
from catgrad.types import Dtype

MAX_MATRIX_ROWS = 32
"""The greatest length that is transformed by one matrix, where it has factors."""


@aten("_fft_r2c.default")
def of_real(x: Any, dim: list[int], normalization: int, onesided: bool) -> Pair:
    """Transform a real array; of the last of the axes, `onesided` keeps frequencies up to n/2."""
    scale, (*others, last) = _scale([x.shape[axis] for axis in dim], normalization), dim
    y = transform(x, last % x.type.rank, forward=True)
    kept = in_parts(narrow)(y, last, 0, x.shape[last] // 2 + 1) if onesided else y
    return _transforms(kept, others, scale, forward=True)


@of_pairs("_fft_c2c.default")
def of_complex(x: Pair, dim: list[int], normalization: int, forward: bool) -> Pair:
    """Transform a complex array."""
    scale = _scale([x.shape[axis] for axis in dim], normalization)
    return _transforms(x, dim, scale, forward)


@of_pairs("_fft_c2r.default")
def to_real(x: Pair, dim: list[int], normalization: int, last_dim_size: int) -> Any:
    """Transform frequencies up to n/2 back to a real array, of size n along the last of the axes.

    The other frequencies are complex conjugates: X[n - k] = conj X[k], at the negative places of other axes.
    """
    *others, last = (axis % len(x.shape) for axis in dim)
    scale = _scale([*(x.shape[axis] for axis in others), last_dim_size], normalization)
    for axis in others:
        x = transform(x, axis, forward=False)
    x = in_parts(narrow)(x, last, 0, last_dim_size // 2 + 1)
    missing = last_dim_size - x.shape[last]
    if missing:
        mirrored = in_parts(lambda part: ops.flip(narrow(part, last, 1, missing), last))(x)
        x = in_parts(lambda parts: ops.concat(parts, last))([x, conjugate(mirrored)])
    return transform(x, last, forward=False).real * scale


def _transforms(x: Pair, axes: list[int], scale: float, forward: bool) -> Pair:
    """Transform along each of these axes, and scale."""
    for axis in axes:
        x = transform(x, axis % len(x.shape), forward)
    return Pair(x.real * scale, x.imag * scale)


def _scale(sizes: list[Any], normalization: int) -> float:
    """Return 1, 1/√n or 1/n, as PyTorch numbers them."""
    require(
        all(isinstance(size, int) for size in sizes),
        "the lengths of a Fourier transform must be fixed",
        f"they are {', '.join(map(str, sizes))}",
        "leave the axis out of `dynamic`",
    )
    return float({0: 1.0, 1: prod(sizes) ** -0.5, 2: 1 / prod(sizes)}[normalization])


def transform(x: Any, axis: int, forward: bool) -> Any:
    """Discrete Fourier transform along one axis: X[k] = Σⱼ x[j] e^(∓2πi jk/n), of a real array or a pair.

    For n = p · q, it has p · q · (p + q) products: with j = q j₁ + j₂ and k = k₁ + p k₂, it is a transform
    over j₁, a turn by the angle 2π j₂ k₁ / n, and a transform over j₂.
    """
    lead, n, tail = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    p = _divisor(n)
    if p == 1:
        return _by_matrix(x, axis, forward)
    q = n // p
    y = transform(in_parts(ops.reshape)(x, *lead, p, q, *tail), axis, forward)
    others = [k for k in range(len(y.shape)) if k not in (axis, axis + 1)]
    turns = in_parts(ops.broadcast)(_waves(p, q, n, y.type.dtype, forward), y.shape, others)
    z = transform(bilinear(mul, y, turns), axis + 1, forward)
    order = [*range(axis), axis + 1, axis, *range(axis + 2, len(z.shape))]
    return in_parts(ops.reshape)(in_parts(ops.permute)(z, *order), *lead, n, *tail)


def _by_matrix(x: Any, axis: int, forward: bool) -> Any:
    """Transform along one axis by a contraction with all n² powers of the root of unity."""
    n, k = x.shape[axis], len(x.shape)
    axes = tuple(range(k))
    product = Contract(axes, (axis, k), (*axes[:axis], k, *axes[axis + 1 :]))
    return bilinear(product, x, _waves(n, n, n, x.type.dtype, forward))


def _waves(rows: int, columns: int, n: int, dtype: Dtype, forward: bool) -> Pair:
    """Return the matrix e^(∓2πi jk/n) over j < rows and k < columns.

    Whole turns are taken off, because sines of large angles are less exact.
    """
    shape = (rows, columns)
    steps = ops.broadcast(ops.iota(rows), shape, [1]) * ops.broadcast(ops.iota(columns), shape)
    half = n // 2
    angles = ops.cast((steps + half) % n - half, dtype.wide) * (2 * pi / n)
    sines = ops.sin(angles)
    return Pair(ops.cast(ops.cos(angles), dtype), ops.cast(-sines if forward else sines, dtype))


def _divisor(n: int) -> int:
    """Return the greatest divisor up to √n, 1 for short lengths and primes."""
    if n <= MAX_MATRIX_ROWS:
        return 1
    return next(p for p in range(isqrt(n), 0, -1) if n % p == 0)
