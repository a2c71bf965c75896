"""Learned grids: integers round the exact numbers of a layer with fake quantisation, to the same levels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catgrad import Dtype, NdArrayType, Task, build, layers, mse, ops, sgd
from catgrad.errors import OptionError
from catgrad.functors import reverse
from catgrad.initialisers import Filled
from catgrad.ops.fake_quantisation import FakeQuantise
from catgrad.programs.program import evaluate
from catgrad.quantisation import quantise
from catgrad.quantisation.grids import levels_on

RANGES = st.sampled_from([(-128, 127), (0, 255), (0, 127), (-8, 7), (-100, 155)])
SCALES = st.floats(2.0**-10, 1.0, width=32)
TIE = 2**-16
"""Levels from a tie, up to which multipliers of 31 bits may round the other way."""


@st.composite
def grids(draw):
    low, high = draw(RANGES)
    return draw(SCALES), draw(st.integers(low, high)), low, high


def on(grid, x):
    scale, zero, low, high = grid
    return ops.fake_quantise(x, scale, zero, None, low, high)


def dense(outer, inner, scales, function=ops.relu):
    """Round an array, weights of each channel and the result; inputs have 7 elements, outputs 3."""

    def forward(x):
        weight = layers.parameter("weight", NdArrayType((7, 3)), Filled(0.0))
        bias = layers.parameter("bias", NdArrayType((3,)), Filled(0.0))
        weight = ops.fake_quantise(weight, ops.array(scales), 0, 1)
        return on(outer, function(on(inner, x) @ weight + ops.broadcast(bias, (20, 3))))

    return Task(build(forward, [NdArrayType((20, 7))]), sgd(0.1), mse)


def outputs(task, arrays, x):
    own = {slot.name: getattr(slot.initial, "array", None) for slot in (*task.buffers, *task.parameters)}
    term, inputs, _ = task.entry("predict")
    [y] = term.run(*((own | arrays)[port.name] for port in inputs[:-1]), x)
    return y


@given(grids(), grids(), st.lists(SCALES, min_size=3, max_size=3), st.integers(0, 2**32 - 1))
def test_a_layer_rounds_its_exact_number(outer, inner, scales, seed):
    rng, scales = np.random.default_rng(seed), np.float32(scales)
    weight = rng.normal(size=(7, 3)).astype(np.float32) * scales * 60
    bias, x = (
        rng.normal(size=3).astype(np.float32),
        rng.normal(size=(20, 7)).astype(np.float32) * 100 * inner[0],
    )
    task, arrays = dense(outer, inner, scales), {"weight": weight, "bias": bias}
    quantised = quantise(task, arrays, inputs=Dtype.int8, outputs=Dtype.int8)
    [first], [last] = quantised.input_scales, quantised.output_scales
    assert (first.scale, last.scale) == (np.float32(inner[0]), np.float32(outer[0]))
    kinds = {slot.name: slot.initial.array for slot in quantised.buffers}
    levels = np.clip(np.rint(weight * (1 / scales)), -128, 127)
    np.testing.assert_array_equal(kinds["weight"], levels)
    q = first.quantise(x)
    found = outputs(quantised, {}, q)

    move = inner[1] - first.zero
    number = (np.clip(q.astype(np.float64) + move, *inner[2:]) - inner[1]) * float(np.float32(inner[0]))
    exact = np.maximum(number @ (levels * scales.astype(np.float64)) + bias, 0) / last.scale + last.zero
    low, high = (bound + last.zero - outer[1] for bound in outer[2:])
    assert np.all((found >= low) & (found <= high))
    is_tie = np.abs(exact - np.floor(exact) - 0.5) < TIE
    wanted = np.clip(np.floor(exact + 0.5), low, high)
    assert np.array_equal(found[~is_tie], wanted[~is_tie])
    fake = np.rint(outputs(task, arrays, first.dequantise(q).astype(np.float32)) / last.scale) + last.zero
    assert np.abs(fake - found).max() <= 1


@given(grids(), grids(), st.integers(0, 2**32 - 1))
def test_a_table_has_the_levels_of_the_model(outer, inner, seed):
    x = np.random.default_rng(seed).normal(size=(9, 5)).astype(np.float32) * 80 * inner[0]
    task = Task(build(lambda x: on(outer, ops.silu(on(inner, x))), [NdArrayType(x.shape)]), sgd(0.1), mse)
    np.testing.assert_array_equal(outputs(quantise(task, {}), {}, x), outputs(task, {}, x))


@pytest.mark.parametrize("function", [ops.relu, lambda x: ops.flip(x, 1), lambda x: ops.reshape(x, 45)])
def test_moves_and_relu_keep_a_grid_without_data(function):
    x = np.random.default_rng(0).normal(size=(9, 5)).astype(np.float32)
    task = Task(build(lambda x: function(on((0.02, 100, 0, 255), x)), [NdArrayType(x.shape)]), sgd(0.1), mse)
    quantised = quantise(task, {}, outputs=Dtype.int8)
    assert quantised.output_scales == ((np.float32(0.02), -28),)
    [affine], found = quantised.output_scales, outputs(quantised, {}, x)
    np.testing.assert_array_equal(affine.dequantise(found).astype(np.float32), outputs(task, {}, x))


def test_arrays_without_a_learned_grid_need_data():
    wide = (0.001, 0, -32768, 32767)
    for grid in (wide, (0.02, 100, 0, 255)):
        function = build(
            lambda x, grid=grid: on(grid, ops.mean(x @ ops.array(np.eye(4)), 1)), [NdArrayType((3, 4))]
        )
        with pytest.raises(
            OptionError, match="there are none, and .* has no learned scale; pass some of the"
        ):
            quantise(Task(function, sgd(0.1), mse), {})


def test_weights_off_the_levels_of_int8_are_calibrated():
    scales = np.float32([[0.1, 0.2]])
    assert levels_on(scales, np.float32([[0.3, 25.6]]), (0,)) is None
    assert levels_on(scales, np.float32([[0.3, -25.6]]), (1,)) is None
    found, of_each = levels_on(scales, np.float32([[0.3, -25.6]]), (0,))
    assert found.tolist() == [[3, -128]] and of_each.tolist() == scales.astype(float).tolist()


@given(grids(), st.integers(0, 2**32 - 1))
def test_the_body_of_fake_quantisation_is_its_reference(grid, seed):
    x = np.random.default_rng(seed).normal(size=(4, 3)).astype(np.float32) * 100 * grid[0]
    scale, zero = np.float32([grid[0], 0.5, 3]), np.int32([grid[1]] * 3)
    op = FakeQuantise(1, *grid[2:])
    types = [NdArrayType(a.shape, Dtype[a.dtype.name]) for a in (x, scale, zero)]
    np.testing.assert_array_equal(build(op.body, types)(x, scale, zero), op.ref(x, scale, zero))
    dy = np.ones_like(x)
    y, dx, *_ = evaluate(reverse(build(op, types)), x, scale, zero, dy)
    levels = np.rint(x * (1 / scale)) + zero
    np.testing.assert_array_equal(y, op.ref(x, scale, zero))
    np.testing.assert_array_equal(dx, (levels >= grid[2]) & (levels <= grid[3]))
