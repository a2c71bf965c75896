"""Scalars: what several kernels read is computed once, what one kernel reads within it, sums one by one."""

from __future__ import annotations

import numpy as np
import pytest
from catgrad.backends.cuda.machine import MACHINE as CUDA

from catgrad import NdArrayType, build, ops
from catgrad.loops.ir.nest import scalars, statements
from catgrad.loops.ir.scalar import Compute, Space
from catgrad.loops.ir.steps import kernels
from catgrad.loops.reference import run
from catgrad.ops.transcendental import Exp
from catgrad.programs.program import evaluate
from catgrad.programs.program import lower as straight
from catgrad.testing import draw_arrays
from tests.kernels import SCALARS, VECTORS, compiled

on_all_machines = pytest.mark.parametrize("machine", [SCALARS, VECTORS, CUDA])
on_processors = pytest.mark.parametrize("machine", [SCALARS, VECTORS])

TYPES = [NdArrayType(shape) for shape in ((), (8,), (5, 3))]


def rate(s):
    """A costly scalar."""
    return ops.exp(ops.sin(s) * 2)


def scaled(s, x, y):
    return [a * ops.broadcast(rate(s), a.shape) for a in (x, y)]


def in_one(s, x, y):
    return x * ops.broadcast(rate(s), x.shape) + ops.broadcast(rate(s), x.shape), y


def in_a_loop(s, x, y):
    def iteration(s, x, y):
        return (s + 1, *scaled(s, x, y))

    return ops.repeat(iteration, 3, s, x, y)


def norm(*arrays):
    total = ops.sum(arrays[0] * arrays[0])
    for array in arrays[1:]:
        total = total + ops.sum(array * array)
    return [array / ops.broadcast(ops.sqrt(total), array.shape) for array in arrays]


def exponentials(lowered):
    """Count the exponentials in the kernels."""
    every = [s for kernel in kernels(lowered.steps) for s in statements(kernel.body)]
    nodes = {node for s in every for scalar in scalars(s) for node in scalar.nodes()}
    return sum(isinstance(node, Compute) and isinstance(node.op, Exp) for node in nodes)


def operands(kernel):
    """Return the arrays in memory that a kernel reads."""
    return {b for b, _ in kernel.reads if not b.is_of_kernel}


def preserves_the_meaning(term, lowered, types):
    arrays = draw_arrays(types, (0.5, 1.5))
    for x, y in zip(run(lowered, *arrays), evaluate(straight(term), *arrays), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)
    return True


@on_all_machines
@pytest.mark.parametrize("function", [scaled, in_one, in_a_loop])
def test_a_costly_scalar_is_computed_once(function, machine):
    term = build(function, TYPES)
    lowered = compiled(term, machine)
    assert exponentials(lowered) == 1
    assert machine is CUDA or preserves_the_meaning(term, lowered, TYPES)


@on_processors
def test_a_scalar_that_one_kernel_reads_is_in_no_memory(machine):
    lowered = compiled(build(in_one, TYPES), machine)
    buffers = {b for kernel in kernels(lowered.steps) for b, _ in kernel.writes}
    assert not any(b.space is Space.WORKSPACE for b in buffers)


@on_processors
def test_a_sum_of_many_scalars_takes_few_operands(machine):
    types = [NdArrayType((k,)) for k in range(2, 22)]
    term = build(norm, types)
    lowered = compiled(term, machine)
    assert max(len(operands(kernel)) for kernel in kernels(lowered.steps)) <= 3
    assert preserves_the_meaning(term, lowered, types)
