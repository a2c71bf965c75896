"""A library for the simulator, called from Python; imports little, for programs that a sanitizer watches."""

from __future__ import annotations

import ctypes


class Device:
    """The functions of a library that return an error code, on arrays and numbers."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.library.cuda_simulator_message.restype = ctypes.c_char_p

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments):
            return function(*map(argument, arguments))

        return call

    @property
    def message(self):
        return self.library.cuda_simulator_message().decode()


def argument(value):
    """Convert an array to its address, and a number to C's."""
    if hasattr(value, "ctypes"):
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_float(value) if isinstance(value, float) else value
