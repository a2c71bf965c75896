"""The peak memory of programs: overlapping lifetimes, the inside of loops, and checkpoints."""

from __future__ import annotations

import pytest

from catgrad import Dim, NdArrayType, build, ops
from catgrad.errors import ShapeError
from catgrad.functors import Expand, reverse
from catgrad.programs.passes import erase_barriers, optimise
from catgrad.programs.peak_memory import peak
from catgrad.programs.program import lower

N = Dim("n")


def chain(depth, wrap):
    """Build a chain of layers with three inner values each, and its optimised reverse."""

    def layer(x):
        return ops.tanh(ops.sin(ops.exp(x) * x))

    def forward(x):
        for _ in range(depth):
            x = wrap(layer, x)
        return x

    term = reverse(build(forward, [NdArrayType((1000,))]))
    return erase_barriers(optimise(lower(Expand()(term))))


def test_checkpoints_lower_the_peak():
    """A checkpointed chain of 8 layers saves one array for each layer."""
    plain, wrapped = (peak(chain(8, wrap)) for wrap in (lambda f, x: f(x), lambda f, x: ops.checkpoint(f, x)))
    assert wrapped <= plain / 2
    assert peak(chain(16, lambda f, x: ops.checkpoint(f, x))) - wrapped <= 8 * 4000


def test_the_peak_is_the_largest_sum_of_sizes_with_overlapping_lifetimes():
    x = NdArrayType((10,))
    assert peak(lower(build(lambda x: x, [x]))) == 40
    assert peak(optimise(lower(build(lambda x: ops.exp(ops.exp(ops.exp(x))), [x])))) == 120
    assert peak(optimise(lower(build(lambda x: ops.exp(x) * ops.sin(x), [x])))) == 160
    assert peak(optimise(lower(build(lambda x: (ops.sum(x), x), [x])))) == 44
    assert peak(optimise(lower(build(lambda x: x, [NdArrayType((N, 2))]))), {"n": 3}) == 24
    with pytest.raises(ShapeError, match="n is symbolic"):
        peak(optimise(lower(build(lambda x: x, [NdArrayType((N, 2))]))))


def test_the_peak_counts_the_inside_of_loops():
    def loop(h):
        return ops.repeat(lambda c: ops.sum(ops.exp(ops.broadcast(c, (100,)))), 3, h)

    assert peak(optimise(lower(build(loop, [NdArrayType(())])))) >= 800
