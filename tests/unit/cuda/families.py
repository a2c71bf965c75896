"""Kernels of each kind on random numbers, with their results in NumPy; as a program, it runs some of them.

python -m tests.unit.cuda.families LIBRARY FAMILY...
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial

import numpy as np

from .device import Device

RNG = np.random.default_rng(0)


@dataclass
class Family:
    """The name of a function, its inputs, and its results in float64; `first` is an argument before them."""

    function: str
    inputs: tuple
    results: tuple
    first: tuple = ()
    intermediate: tuple = ()

    def run(self, device, stream=None):
        """Return the results on a device."""
        outputs = [np.full(shape, np.nan, np.float32) for shape in self.shapes()]
        error = getattr(device, self.function)(*self.first, *self.inputs, *outputs, stream)
        assert (error, device.message) == (0, "")
        return [out for out, result in zip(outputs, self.order(), strict=True) if result is not None]

    def order(self):
        """Return the results in the order of the arguments, None for intermediate ones."""
        return [*self.results[:1], *(None for _ in self.intermediate), *self.results[1:]]

    def shapes(self):
        """Return the shapes of the outputs."""
        intermediate = iter(self.intermediate)
        return [next(intermediate) if out is None else out.shape for out in self.order()]


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def mapped():
    x, bias, scale = floats(64, 96), floats(96), floats(64)
    return Family("map", (x, bias, scale), (gelu(x.astype(np.float64) + bias) * scale[:, None],))


def softmax():
    x = floats(11, 517) * 5
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return Family("softmax", (x,), (powers / powers.sum(1, keepdims=True),))


def product(bug=0):
    a, b = floats(50, 41), floats(41, 70)
    return Family("product", (a, b), (a.astype(np.float64) @ b,), first=(bug,))


def norm():
    dy, x, gain = floats(24, 64), floats(24, 64), floats(64)
    rstd = (1 / np.sqrt(np.square(x).mean(1))).astype(np.float32)
    s, d = rstd[:, None].astype(np.float64), dy.astype(np.float64) * gain
    dx = (d - x * (x * d).mean(1, keepdims=True) * s * s) * s
    return Family("norm_reverse", (dy, x, gain, rstd), (dx, (dy * x * s).sum(0)), intermediate=((3, 64),))


def mma(kind):
    a, b = floats(16, 32), floats(8, 32)
    bits = [m.view(np.uint32) for m in (a, b)]
    if kind == 0:
        packed = [(m >> 16).astype(np.uint16) for m in bits]
        numbers = [(m.astype(np.uint32) << 16).view(np.float32) for m in packed]
    elif kind == 1:
        packed = numbers = [m.astype(np.float16) for m in (a, b)]
    else:
        packed, numbers = bits, [(m & np.uint32(0xFFFFE000)).view(np.float32) for m in bits]
    left, right = (m.astype(np.float64) for m in numbers)
    return Family("mma", tuple(packed), (left @ right.T,), first=(kind,))


FAMILIES = {
    "map": mapped,
    "softmax": softmax,
    "product": product,
    "norm": norm,
    "bfloat16": partial(mma, 0),
    "float16": partial(mma, 1),
    "tf32": partial(mma, 2),
}

BUGS = {"no_barrier": 1, "no_guard": 2, "swapped_strides": 3}
"""Bugs of the product."""

if __name__ == "__main__":
    device = Device(sys.argv[1])
    for name in sys.argv[2:]:
        (product(BUGS[name]) if name in BUGS else FAMILIES[name]()).run(device)
