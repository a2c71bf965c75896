"""Layers that follow each other are one nest over images, whose arrays share memory."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from catgrad.backends.c.machine import MACHINE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catgrad import NdArrayType, build, ops
from catgrad.functors import reverse
from catgrad.loops.ir.nest import MatMul, statements
from catgrad.loops.ir.steps import kernels
from catgrad.loops.memory_plan import byte_size, is_local, planned
from catgrad.loops.reference import run
from catgrad.programs.program import evaluate
from catgrad.programs.program import lower as straight
from catgrad.testing import draw_arrays
from tests.kernels import VECTORS, compiled
from tests.strategies import integer_terms, integers_for

IMAGES, FILTERS, CHANNELS = NdArrayType((6, 8, 24, 24)), NdArrayType((8, 8, 3, 3)), NdArrayType((8,))


def layer(images, filters, variances):
    """Convolve images, and divide each channel by its standard deviation."""
    padded = ops.pad(images, [(0, 0), (0, 0), (1, 1), (1, 1)])
    scale = ops.broadcast(ops.rsqrt(variances), IMAGES.shape, (0, 2, 3))
    return ops.relu(ops.conv(padded, filters) * scale)


def layers_of(count):
    """Build so many layers."""

    def network(images, *parameters):
        for filters, variances in zip(parameters[::2], parameters[1::2], strict=True):
            images = layer(images, filters, variances)
        return images

    return build(network, [IMAGES, *[FILTERS, CHANNELS] * count])


@pytest.mark.parametrize("count", [2, 4])
def test_layers_are_one_nest_if_short_loops_that_depend_on_no_other_come_first(count):
    """Each reciprocal of a root depends on arguments only, and stands between the nests of two layers."""
    *short, nest = kernels(compiled(layers_of(count), MACHINE).steps)
    assert [kernel.body[0].variable.extent for kernel in (*short, nest)] == [8] * count + [6]
    assert sum(isinstance(s, MatMul) for s in statements(nest.body)) == count


def spans(kernel):
    """Find the first and the last statement of each array that takes scratch memory within an iteration."""
    found = {}
    for number, s in enumerate(statements(kernel.body)):
        for array, _ in (*s.reads, *s.writes):
            if array.is_of_kernel and not is_local(array):
                found.setdefault(array, []).append(number)
    return {array: (numbers[0], numbers[-1]) for array, numbers in found.items()}


def test_arrays_of_an_iteration_share_memory_if_their_lifetimes_do_not_overlap():
    lowered = compiled(layers_of(4), MACHINE)
    plan, [kernel] = planned(lowered), [*kernels(lowered.steps)][-1:]
    alive = spans(kernel)
    ends = {array: plan.scratch[array] + byte_size(array) for array in alive}
    for a, b in combinations(alive, 2):
        if max(alive[a][0], alive[b][0]) <= min(alive[a][1], alive[b][1]):
            assert ends[a] <= plan.scratch[b] or ends[b] <= plan.scratch[a]
    assert len(alive) == 8
    assert plan.scratch_sizes[kernel] < 3 * max(map(byte_size, alive))


def test_memory_that_arrays_share_keeps_the_meaning():
    term = layers_of(2)
    arrays = draw_arrays(tuple(term.source.table), (0.5, 1.5), 0)
    lowered = compiled(term, MACHINE)
    [found] = run(lowered, *arrays, plan=planned(lowered))
    [wanted] = evaluate(straight(term), *arrays)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


@pytest.fixture
def scratch_for_all(monkeypatch):
    """Take scratch memory for every array of a kernel with more than an element."""
    monkeypatch.setattr("catgrad.loops.memory_plan.MAX_LOCAL_BYTES", 7)


@settings(suppress_health_check=list(HealthCheck))
@given(integer_terms(size=10), st.sampled_from([VECTORS, MACHINE]), st.integers(0, 99))
def test_scratch_memory_keeps_the_meaning_of_any_program(scratch_for_all, term, machine, seed):
    term = reverse(term)
    arrays, lowered = integers_for(term, seed), compiled(term, machine)
    found = run(lowered, *arrays, plan=planned(lowered))
    assert all(map(np.array_equal, found, evaluate(straight(term), *arrays)))
