"""The types in comments of emitted Python, compared with those of the values as lines are executed."""

from __future__ import annotations

import linecache
import re
import sys
from contextlib import contextmanager

import numpy as np

from catgrad import Dtype, NdArrayType

ASSIGNED = re.compile(r"^ *(\w+(?:, \w+)*) = .*  # (\w+\[.*\])$")
TYPE = re.compile(r"(\w+)\[([^\]]*)\]")
NAMES = {str(NdArrayType((), dtype)).removesuffix("[]"): dtype.name for dtype in Dtype}
"""Names of dtypes by those that comments have."""
PYTHON = ("numpy", "torch", "jax")


def type_of(value):
    return str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch."), tuple(np.shape(value))


class Trace:
    """Compare what each emitted line has assigned with the types in its comment."""

    def __init__(self, sizes):
        self.sizes, self.compared, self.wrong, self.before = sizes, 0, [], {}

    def __call__(self, frame, event, _):
        if not frame.f_code.co_filename.startswith("<catgrad case"):
            return None
        line = self.before.pop(id(frame), "")
        if (match := ASSIGNED.match(line)) and event in ("line", "return"):
            names = [name for name in match[1].split(", ") if not callable(frame.f_locals[name])]
            for name, (dtype, shape) in zip(names, TYPE.findall(match[2]), strict=True):
                wanted = NAMES[dtype], tuple(map(self.size, filter(None, shape.split(","))))
                self.compared += 1
                if (found := type_of(frame.f_locals[name])) != wanted:
                    self.wrong.append(f"{line.strip()}: {found}")
        if event == "line":
            self.before[id(frame)] = linecache.getline(frame.f_code.co_filename, frame.f_lineno).rstrip()
        return self

    def size(self, text):
        """Return a size: a number, or a symbol."""
        return self.sizes[text.strip()] if text.strip().isidentifier() else int(text)


@contextmanager
def traced(**sizes):
    trace, old = Trace(sizes), sys.gettrace()
    sys.settrace(trace)
    try:
        yield trace
    finally:
        sys.settrace(old)
