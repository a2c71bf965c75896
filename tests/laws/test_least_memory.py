"""Products are cut into strips, and steps ordered by liveness: the same results in no more memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from catgrad.backends.c.machine import MACHINE
from hypothesis import given, settings
from hypothesis import strategies as st

from catgrad import NdArrayType, Task, build, layers, losses, ops, optimisers, sgd
from catgrad.dims import product
from catgrad.functors import Expand, reverse
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.nest import MatMul, loops, statements
from catgrad.loops.ir.steps import kernels
from catgrad.loops.memory_plan import planned
from catgrad.loops.passes import PASSES
from catgrad.loops.passes.schedule.order_steps import ordered
from catgrad.loops.passes.schedule.strip_mine import strip_miner
from catgrad.loops.reference import run
from catgrad.programs.ports import Kind
from catgrad.programs.program import lower as straight
from catgrad.testing import draw_arrays
from catgrad.types import Dtype
from tests.kernels import VECTORS, has, prepared
from tests.strategies import float_terms
from tests.targets import emit

EXPAND = Expand(has)


def function_of(term):
    return prepared(straight(EXPAND(term)))


def machine(most, unit, *operands):
    """Describe VECTORS with strips of this size; without strips for None."""
    own = [] if most is None else [strip_miner(most, unit, *operands, few=unit)]
    at = next(number for number, each in enumerate(PASSES) if each.__name__ == "strip_mine")
    return replace(VECTORS, passes=(*PASSES[:at], *own, *PASSES[at + 1 :]))


def stripped(lowered):
    """List the products inside loops."""
    nests = [loop for kernel in kernels(lowered.steps) for loop in loops(kernel.body)]
    return [s for loop in nests for s in statements(loop.body) if isinstance(s, MatMul)]


def needed(plan):
    return plan.size + max(plan.scratch_sizes.values(), default=0)


EPILOGUES = {
    "sgd": lambda w, m, g: (w - 0.1 * g, m),
    "transposed": lambda w, m, g: (w - 0.1 * g, m + ops.transpose(ops.transpose(g))),
    "momentum": lambda w, m, g: (w - 0.1 * (0.9 * m + g), 0.9 * m + g),
    "adam": lambda w, m, g: (w - (0.9 * m + g) / (ops.sqrt(ops.square(g)) + 1e-3), 0.9 * m + g),
    "rows": lambda w, m, g: (
        w - g / ops.transpose(ops.broadcast(ops.sum(ops.square(g), 1), w.shape[::-1])),
        m,
    ),
    "columns": lambda w, m, g: (w - g / ops.broadcast(ops.sum(ops.square(g), 0), w.shape), m),
    "norm": lambda w, m, g: (w - g / ops.broadcast(ops.sum(ops.square(g)), w.shape), m),
}


@pytest.mark.parametrize("name", EPILOGUES)
@given(
    st.integers(26, 40),
    st.integers(26, 40),
    st.just(32),
    st.integers(64, 4096),
    st.integers(1, 16),
    st.integers(4 * 32 * 26, 4 * 32 * 40),
    st.booleans(),
    st.integers(0, 99),
)
@settings(max_examples=4)
def test_an_update_is_the_epilogue_of_its_product(name, m, n, k, most, unit, operands, in_place, seed):
    """Bit for bit: the sum of each element has the same terms in the same order."""
    types = [NdArrayType(s) for s in ((m, n), (m, n), (k, m), (k, n))]
    term = build(lambda w, v, x, y: EPILOGUES[name](w, v, ops.transpose(x) @ y), types)
    function, taken = function_of(term), {0: 0, 1: 1} if in_place else {}
    arrays = draw_arrays(types, (-1.0, 1.0), seed)
    whole, cut = (compile_kernels(function, machine(size, unit, operands), taken) for size in (None, most))
    for found, wanted in zip(
        run(cut, *(x.copy() for x in arrays), plan=planned(cut)), run(whole, *arrays), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)
    assert needed(planned(cut)) <= needed(planned(whole))


@given(
    float_terms(),
    st.integers(1, 256),
    st.integers(1, 3),
    st.sampled_from([16, 64, 2**20]),
    st.integers(0, 99),
)
def test_strips_keep_the_meaning_of_any_program(term, most, unit, operands, seed):
    function = function_of(reverse(term))
    arrays = draw_arrays(function.argument_types, (-1.0, 1.0), seed)
    whole, cut = (compile_kernels(function, machine(size, unit, operands)) for size in (None, most))
    for found, wanted in zip(run(cut, *arrays, plan=planned(cut)), run(whole, *arrays), strict=True):
        np.testing.assert_array_equal(found, wanted)


@given(st.lists(st.sets(st.integers(0, 15)), max_size=16), st.data())
def test_steps_are_ordered_topologically(predecessors, data):
    """Each step is in the order once, after those it depends on."""
    lowered = compile_kernels(function_of(build(lambda x: ops.cumsum(x, 0), [NdArrayType((3,))])), VECTORS)
    steps = [replace(lowered.steps[0]) for _ in predecessors]
    after = {}
    for number, before in enumerate(predecessors):
        for earlier in before:
            if earlier < number:
                after.setdefault(earlier, set()).add(number)
    places = {id(step): place for place, step in enumerate(ordered(steps, after))}
    assert len(places) == len(steps)
    for earlier, followers in after.items():
        assert all(places[id(steps[earlier])] < places[id(steps[later])] for later in followers)


def perceptron(widths, optimiser, batch=64):
    N, sizes = NdArrayType((batch,)), [NdArrayType((width,)) for width in widths]
    model = layers.sequential(
        *(layers.dense(N, a, b, activation=layers.relu) for a, b in pairwise(sizes[:-1])),
        layers.linear(N, *sizes[-2:]),
    )
    labels = (NdArrayType((batch,), Dtype.int64),)
    return Task(model, optimiser, losses.cross_entropy, "perceptron", labels)


def step_of(task):
    """Compile the step for C; returns it with its plan."""
    function = emit(task, "c").program.kinds[Kind.STEP]
    lowered = compile_kernels(function, MACHINE, function.renewed())
    return lowered, planned(lowered, 8, MACHINE.packing)


ELEMENTWISE = {
    "sgd": sgd(0.1),
    "momentum": sgd(0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": sgd(0.1, momentum=0.9, nesterov=True),
    "adam": optimisers.adam(1e-3),
    "adamw": optimisers.adamw(1e-3, weight_decay=0.01),
    "lion": optimisers.lion(1e-3),
    "rmsprop": optimisers.rmsprop(1e-3),
    "adagrad": optimisers.adagrad(1e-2),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_no_large_gradient_is_stored(name):
    lowered, plan = step_of(perceptron((784, 128, 10), ELEMENTWISE[name]))
    assert len(stripped(lowered)) == 1
    assert max(product(buffer.type.shape) for buffer in plan.offsets) < 784 * 128
    assert needed(plan) <= 240_000


def test_the_step_of_a_deeper_perceptron_takes_less_than_a_third_of_its_gradients():
    _, plan = step_of(perceptron((784, 512, 512, 512, 10), sgd(0.1)))
    assert needed(plan) <= 1_600_000


@pytest.mark.parametrize("outputs", [1000, 12288])
def test_no_strip_reads_an_operand_that_leaves_the_cache(outputs):
    """The gradient of 2048 × 12288 weights is cut along its columns, as the cotangents have 3 MiB."""
    lowered, _ = step_of(perceptron((2048, outputs), sgd(0.1)))
    [strip] = {(s.rows[0].extent == 2048, s.columns[0].extent == outputs) for s in stripped(lowered)}
    assert strip == ((False, True) if outputs == 1000 else (True, False))


@pytest.mark.parametrize("optimiser", [optimisers.clipped(sgd(0.1), 1.0), optimisers.muon(1e-3)])
def test_optimisers_that_need_whole_gradients_store_them(optimiser):
    _, plan = step_of(perceptron((784, 128, 10), optimiser))
    assert max(product(buffer.type.shape) for buffer in plan.offsets) == 784 * 128


@pytest.mark.parametrize("layers_before", [1, 3])
def test_a_weight_is_updated_after_its_last_read(layers_before):
    """The cotangent of a layer's input reads the old weight."""
    lowered, _ = step_of(perceptron((256,) * (layers_before + 1) + (10,), sgd(0.1)))
    updated = set()
    for step in lowered.steps:
        written = {buffer.alias for buffer, _ in step.writes if buffer.alias is not None}
        assert updated.isdisjoint({buffer for buffer, _ in step.reads} - written)
        updated |= written
