"""Quantised models compute the same integers on every target, without a float between integers."""

from __future__ import annotations

import numpy as np
import pytest
from catgrad.examples import digits

from benchmarks.nets.images import resnet
from benchmarks.tiny.nets import classified, separable
from catgrad import Dim, Dtype, NdArrayType, Task, build, emit, layers, mse, ops, sgd
from catgrad.initialisers import Normal
from catgrad.quantisation import quantise
from tests.targets import LONG, on

BATCH = Dim("batch")
WHOLE = {"inputs": Dtype.int8, "outputs": Dtype.int8}


def pointwise():
    """Apply many functions to features, all of which have an integer form."""

    def forward(x):
        weight = layers.parameter("weight", NdArrayType((6, 8)), Normal(0, 0.5))
        gain = ops.broadcast(layers.parameter("gain", NdArrayType((8,)), Normal(0, 0.5)), (BATCH, 8))
        wide = x @ weight
        bent = ops.silu(wide) * gain + wide * ops.clamp(wide, -0.5, 0.5) - ops.relu(wide)
        parts = ops.concat([ops.gelu(bent), ops.tanh(wide), 0.5 - bent], 1)
        moved = ops.flip(ops.permute(ops.reshape(parts, BATCH, 4, 6), 0, 2, 1), 1)
        scores = ops.matmul(moved, ops.permute(moved, 0, 2, 1))
        first, rest = ops.split(ops.pad(ops.max(scores, 1), [(0, 0), (1, 1)]), (1, 7), 1)
        total = ops.sum(first * first, 1) + ops.mean(rest, 1) + ops.sum(ops.exp(-moved), (1, 2))
        return total - ops.min(parts, 1)

    return build(forward, [NdArrayType((BATCH, 6))])


def pooled():
    """Convolve and pool with padding, with and without windows that it is counted in."""
    x = NdArrayType((BATCH, 2, 7, 6))
    body = layers.conv(x, 4, 3, stride=2, padding=1) >> layers.relu(NdArrayType((BATCH, 4, 4, 3)))

    def forward(image):
        y = body(image)
        pools = [ops.max_pool(y, 3, 1, 1), ops.avg_pool(y, 3, 1, 1), ops.avg_pool(y, 3, 1, 1, False)]
        return ops.concat(pools, 1)

    return build(forward, [x])


def depthwise():
    """Two depthwise-separable blocks and the means of channels."""
    model = separable(NdArrayType((2, 3, 9, 9)), 8, 2, "block_0")
    model = model >> separable(model.target.table[0], 8, 1, "block_1")
    return model >> classified(model, 4)


def rounded():
    """Round to learned grids: of uint8, of 7 and 4 bits, and weights with a scale for each channel or one."""
    scales = np.float32([0.02, 0.01, 0.03, 0.025])

    def forward(image):
        weight = layers.parameter("conv.weight", NdArrayType((4, 2, 3, 3)), Normal(0, 0.5))
        kernel = ops.fake_quantise(weight, ops.array(scales), 0, 0)
        x = ops.fake_quantise(image, 0.03, 128, None, 0, 255)
        y = ops.fake_quantise(ops.relu(ops.conv(x, kernel, padding=1)), 0.025, 0, None, 0, 127)
        both = ops.fake_quantise(ops.concat([y, x - 0.3], 1), 0.04, 60, None, 0, 255)
        z = ops.reshape(ops.max_pool(ops.relu(both), 2), BATCH, 54)
        dense = layers.parameter("dense.weight", NdArrayType((54, 5)), Normal(0, 0.3))
        scores = z @ ops.fake_quantise(dense, 0.1, 0, None, -8, 7)
        return ops.fake_quantise(ops.silu(ops.fake_quantise(scores, 0.05, 10)), 0.05, -100)

    return build(forward, [NdArrayType((BATCH, 2, 7, 6))])


NETS = {
    "mlp": lambda: digits.mlp().model,
    "cnn": lambda: digits.cnn().model,
    "resnet": lambda: resnet(2, 8, (4, 3, 1), blocks=((4, 1), (8, 2))),
    "depthwise": depthwise,
    "pooled": pooled,
    "pointwise": pointwise,
    "rounded": rounded,
}


def given(name):
    """Return a task, its arrays with statistics of batch norm as after training, and inputs."""
    task, rng = Task(NETS[name](), sgd(0.1), mse), np.random.default_rng(0)
    learner = emit(task, "numpy").load()().learner(0)
    arrays = {**learner.parameters, **learner.buffers}
    for key, array in arrays.items():
        if key.endswith(("running_mean", "norm.weight", "norm.bias")):
            arrays[key] = rng.normal(size=array.shape).astype(np.float32)
        if key.endswith("running_var"):
            arrays[key] = rng.uniform(0.5, 2, array.shape).astype(np.float32)
    shape = task.inputs[0].substitute({"batch": 8}).shape
    return task, arrays, rng.normal(size=shape).astype(np.float32)


def predicted(task, target, x):
    """Return the outputs of a target."""
    compiled = emit(task, target, functions=("predict",)).load()()
    [y] = compiled.predict(*compiled.init_buffers(), x)
    return np.asarray(y)


@pytest.mark.parametrize("name", NETS)
def test_a_quantised_model_is_near_the_model(name):
    task, arrays, x = given(name)
    quantised = quantise(task, arrays, [x])
    wanted, found = (evaluated(t, a, x) for t, a in ((task, arrays), (quantised, {})))
    # Of some layers, each rounds to one of 255 levels.
    assert np.abs(found - wanted).max() < 0.08 * np.ptp(wanted)
    assert found.dtype == np.float32


def evaluated(task, arrays, x):
    """Return the outputs of the reference."""
    own = {s.name: getattr(s.initial, "array", None) for s in (*task.buffers, *task.parameters)}
    term, inputs, _ = task.entry("predict")
    [y] = term.run(*((own | arrays)[port.name] for port in inputs[:-1]), x)
    return y


@pytest.mark.parametrize("name", NETS)
def test_no_float_is_between_integers(name):
    task, arrays, x = given(name)
    quantised = quantise(task, arrays, [x], **WHOLE)
    assert {t.dtype for t in quantised.predict_term.H.w.table} <= {Dtype.int8, Dtype.int32, Dtype.int64}


@pytest.mark.covering
@on("numpy", "torch", "c", "javascript", "wasm", "onnx", long=LONG)
@pytest.mark.parametrize("name", NETS)
def test_all_targets_compute_the_same_integers(target, name):
    task, arrays, x = given(name)
    quantised = quantise(task, arrays, [x], **WHOLE)
    q = quantised.input_scales[0].quantise(x)
    np.testing.assert_array_equal(predicted(quantised, target, q), evaluated(quantised, {}, q))


@on("numpy", "torch", "c", "javascript", "wasm", "onnx", long=LONG)
def test_float_inputs_and_outputs_are_converted_alike(target):
    task, arrays, x = given("cnn")
    quantised = quantise(task, arrays, [x])
    np.testing.assert_array_equal(predicted(quantised, target, x), evaluated(quantised, {}, x))
