"""Run kernels of wrong.cu on 40 numbers: python -m tests.unit.cuda.wrong LIBRARY KERNEL..."""

from __future__ import annotations

import ctypes
import sys

from .device import Device

COUNT = 40


def create(device, count=COUNT):
    """Allocate zeros on the device."""
    address = ctypes.c_void_p()
    assert device.create(ctypes.byref(address), count) == 0
    return address


if __name__ == "__main__":
    device = Device(sys.argv[1])
    for name in sys.argv[2:]:
        count = {"no_barrier": 64, "correct": 192}.get(name, COUNT)
        assert getattr(device, f"run_{name}")(create(device, count)) == 0
