"""Run the ring of copies.cu with a bug: python -m tests.unit.cuda.copies LIBRARY BUG"""

from __future__ import annotations

import sys

import numpy as np

from .device import Device

NONE, NO_WAIT, NO_BARRIER, TOO_EARLY = range(4)
X = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float32)


def ring(device, bug):
    """Return what the ring of copies gives."""
    out = np.zeros_like(X)
    assert device.ring(bug, X, out) == 0
    return out


if __name__ == "__main__":
    ring(Device(sys.argv[1]), int(sys.argv[2]))
