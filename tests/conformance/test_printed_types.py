"""The types in comments of emitted Python are those of the values, and every contraction can be printed.

Those of single operations are compared by test_targets.
"""

from __future__ import annotations

import itertools
import linecache
import re
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from catgrad import Dim, Dtype, NdArrayType, build, ops
from catgrad.functors import reverse
from catgrad.ops.contract import Contract
from catgrad.programs.program import evaluate
from catgrad.targets import get_backend
from catgrad.testing import run_on
from tests.targets import on

ASSIGNED = re.compile(r"^ *(\w+(?:, \w+)*) = .*  # (\w+\[.*\])$")
TYPE = re.compile(r"(\w+)\[([^\]]*)\]")
NAMES = {str(NdArrayType((), dtype)).removesuffix("[]"): dtype.name for dtype in Dtype}
"""Names of dtypes by those that comments have."""
PRINTS_TYPES = ("numpy", "torch", "jax")
PYTHON = on(*PRINTS_TYPES)


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


BATCH = NdArrayType((Dim("batch"),))


def normalised(x, weight):
    centred = x - ops.broadcast(ops.mean(x, 1), x.shape, [1])
    scale = ops.broadcast(weight, x.shape, [0])
    return ops.sin(centred) * scale / ops.broadcast(1 + ops.sum(ops.square(centred), 1), x.shape, [1])


@PYTHON
def test_printed_types_of_broadcasts_are_those_of_values(target):
    term = reverse(build(normalised, [NdArrayType((*BATCH.shape, 3)), NdArrayType((3,))]))
    x = np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3)
    with traced(batch=4) as trace:
        run_on(get_backend(target), term, x, x[0], x)
    assert trace.compared > 3
    assert not trace.wrong


@PYTHON
@pytest.mark.parametrize("out", [(0, 1, 3), (1, 0, 3), (3, 1, 0), (1, 3, 0)])
def test_contractions_of_axes_in_any_order(target, out):
    sizes, rng = (2, 3, 4, 5), np.random.default_rng(0)
    orders = list(itertools.product(itertools.permutations((0, 1, 2)), itertools.permutations((1, 2, 3))))
    contractions = [Contract(left, right, out) for left, right in orders]
    arrays = [
        rng.integers(-4, 5, tuple(sizes[axis] for axis in side)).astype(np.float32)
        for op in contractions
        for side in (op.left, op.right)
    ]

    def every(*xs):
        return tuple(op(x, y) for op, x, y in zip(contractions, xs[::2], xs[1::2], strict=True))

    term = build(every, [NdArrayType(array.shape) for array in arrays])
    with traced() as trace:
        results = run_on(get_backend(target), term, *arrays)
    for found, wanted in zip(results, evaluate(term, *arrays), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert not trace.wrong
