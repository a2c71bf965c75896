"""C for a microcontroller: the same numbers in less memory, with sums of bytes rounded strip by strip."""

from __future__ import annotations

import json

import numpy as np
import pytest
from catgrad.backends.c.machine import MACHINE, MICROCONTROLLER

from benchmarks.tiny.mcunet import capped, inverted
from benchmarks.tiny.nets import classified, task
from catgrad import Dtype, NdArrayType, build, emit, ops, sgd
from catgrad.loops.compile import compile_kernels
from catgrad.loops.ir.index import Variable, index
from catgrad.loops.ir.nest import Kernel
from catgrad.loops.ir.scalar import Space
from catgrad.loops.memory_plan import byte_size, planned_for
from catgrad.loops.passes.simplify.contract_arrays import _is_counter
from catgrad.loops.reference import run
from catgrad.programs.program import evaluate, lower
from catgrad.quantisation import quantise
from catgrad.terms.structural import Constant
from tests.kernels import compiled
from tests.targets import on

WIDE = 4 * 16 * 16 * 16
"""Elements of the widest image, after the first expansion of 16 channels to four times as many."""


@pytest.fixture(scope="module")
def net():
    """Return a task with two inverted residual blocks, its arrays and an example."""
    model = capped(NdArrayType((1, 3, 32, 32)), 16, 3, 2, "stem")
    for k, (channels, stride) in enumerate(((16, 1), (24, 2))):
        model = model >> inverted(model.target.table[0], 3, 4, channels, stride, f"block_{k}")
    each, rng = task(model >> classified(model, 4), sgd(0.05)), np.random.default_rng(0)
    arrays = {p.name: rng.normal(0, 0.3, p.type.shape).astype(np.float32) for p in each.parameters}
    return each, arrays, rng.uniform(-1, 1, each.inputs[0].shape).astype(np.float32)


def workspaces(artifact):
    functions = json.loads(artifact.files["manifest.json"])["functions"]
    return {each["name"].removeprefix("tiny_"): int(each["workspace_bytes"]) for each in functions}


@on("c")
def test_a_prediction_has_the_bits_of_numpy_and_stores_no_sums(target, net):
    each, arrays, x = net
    small = quantise(each, arrays, [x], inputs=Dtype.int8, outputs=Dtype.int8)
    [scale] = small.input_scales
    artifact = emit(small, target, microcontroller=True)
    found, wanted = (
        model.predict(*model.init_buffers(), scale.quantise(x))[0]
        for model in (artifact.load()(), emit(small, "numpy").load()())
    )
    assert np.array_equal(found, wanted)
    # The sums of the widest layer alone have more.
    assert workspaces(artifact)["predict"] < 4 * WIDE


@on("c")
def test_a_step_in_int8_is_that_of_other_machines(target, net):
    each, arrays, x = net
    names = [name for name in arrays if name.endswith("bias") or name.startswith("scores")]
    small = quantise(each, arrays, [(x, np.array([1]))], train=names)
    learners = [
        emit(small, target, functions=("predict", "step"), **options).load()().learner(0)
        for options in ({}, {"microcontroller": True})
    ]
    for _ in range(3):
        first, second = (float(learner.step(x, np.array([2]))) for learner in learners)
        assert first == pytest.approx(second, rel=1e-5)
    for name in names:
        np.testing.assert_allclose(*(learner.parameters[name] for learner in learners), rtol=1e-4, atol=1e-6)


@on("c")
def test_floats_train_as_on_other_machines(target, net):
    each, arrays, x = net
    artifacts = [emit(each, target, microcontroller=small) for small in (False, True)]
    learners = [artifact.load()().learner(0) for artifact in artifacts]
    for name, array in arrays.items():
        for learner in learners:
            learner.parameters[name][...] = array
    losses = [[float(learner.step(x, np.array([2]))) for _ in range(3)] for learner in learners]
    np.testing.assert_allclose(*losses, rtol=1e-4)


def test_scratch_memory_lies_below_all_arrays_that_are_alive(net):
    each, arrays, x = net
    small = quantise(each, arrays, [(x, np.array([1]))], train=["scores", "block_1"])
    function = emit(small, "c", microcontroller=True).program["step"]
    lowered = compile_kernels(function, MICROCONTROLLER, function.renewed())
    plan = planned_for(lowered, MICROCONTROLLER)
    alive = {}
    for number, step in enumerate(lowered.steps):
        for array, _ in (*step.reads, *step.writes):
            if array.space is Space.WORKSPACE:
                alive.setdefault(array, []).append(number)
    scratch = [plan.scratch_sizes[s] if isinstance(s, Kernel) else 0 for s in lowered.steps]
    assert max(scratch) > 0
    for array, numbers in alive.items():
        most = max(scratch[min(numbers) : max(numbers) + 1])
        assert plan.offsets[array] >= most
        assert plan.offsets[array] + byte_size(array) <= plan.size == plan.total
    assert max(scratch) <= plan.size


def test_an_array_of_one_element_each_iteration_has_an_index_that_counts_them():
    n, m = Variable(3), Variable(4)
    assert all(map(_is_counter, (index(n), index(n) * 4 + index(m), index(n) * 4 + index(m) + 5)))
    assert not any(map(_is_counter, (index(n) + index(m), index(n) * 2 + index(m), index(n) * 0)))


def test_margins_of_numbers_are_filled_in_the_nest_that_they_surround():
    def fenced(x):
        row = Constant(NdArrayType((20, 1, 30), Dtype.float32), 7.0)()
        column = Constant(NdArrayType((20, 32, 1), Dtype.float32), 7.0)()
        return ops.exp(ops.concat([column, ops.concat([row, ops.tanh(x), row], 1), column], 2))

    term = build(fenced, [NdArrayType((20, 30, 30))])
    x = np.random.default_rng(0).normal(size=(20, 30, 30)).astype(np.float32)
    lowered = compiled(term, MACHINE)
    [found], [wanted] = run(lowered, x), evaluate(lower(term), x)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert len(lowered.steps) == 1
